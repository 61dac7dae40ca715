package rpm

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

const (
	maxModuleDoc   = 8 << 20 // bytes of one document; the largest have 300 KiB
	maxModuleDocs  = 50000
	maxModuleDepth = 20
)

// Module is one document of a list of modules: a build of a stream, or the default stream of a
// module.
type Module struct {
	IsDefault bool
	Name      string
	Stream    string
	Version   uint64
	Context   string
	// alternatives; each has the accepted streams by module; empty: any
	Requires  []map[string][]string
	Artifacts []string // name-epoch:version-release.arch
}

// The fields of the documents that are used here.
type (
	moduleHeader struct {
		Document string    `yaml:"document"`
		Version  int       `yaml:"version"`
		Data     yaml.Node `yaml:"data"`
	}
	moduleData struct {
		Module       string `yaml:"module"` // of defaults, instead of a name
		Name         string `yaml:"name"`
		Stream       string `yaml:"stream"`
		Version      uint64 `yaml:"version"`
		Context      string `yaml:"context"`
		Dependencies []struct {
			Requires map[string][]string `yaml:"requires"`
		} `yaml:"dependencies"`
		Artifacts struct {
			RPMs []string `yaml:"rpms"`
		} `yaml:"artifacts"`
	}
)

// ParseModules reads a modules.yaml: builds (modulemd of version 2) and defaults. It skips other
// documents, those of obsolete streams and translations.
func ParseModules(in io.Reader) (docs []Module, err error) {
	r := bufio.NewReaderSize(in, 64<<10)
	var doc bytes.Buffer
	n := 0
	for {
		line, err := r.ReadSlice('\n')
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		ended := errors.Is(err, io.EOF)
		begins := bytes.HasPrefix(line, []byte("---")) || bytes.HasPrefix(line, []byte("..."))
		if !begins {
			doc.Write(line)
		}
		if doc.Len() > maxModuleDoc {
			return nil, fmt.Errorf("document %d has more than %d bytes", n+1, maxModuleDoc)
		}
		if !begins && !ended {
			continue
		}
		if n++; n > maxModuleDocs {
			return nil, fmt.Errorf("more than %d documents", maxModuleDocs)
		}
		found, err := parseModuleDoc(doc.Bytes())
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		if found != nil {
			docs = append(docs, *found)
		}
		doc.Reset()
		if ended {
			return docs, nil
		}
	}
}

// parseModuleDoc reads one document; it returns nil for one that is not used here.
func parseModuleDoc(text []byte) (*Module, error) {
	if !bytes.Contains(text, []byte("modulemd")) ||
		bytes.Contains(text, []byte("document: modulemd-translations")) {
		return nil, nil
	}
	limits := yaml.WithPlugin(
		loaderlimits.New(loaderlimits.AliasValue(1), loaderlimits.DepthValue(maxModuleDepth)),
	)
	var h moduleHeader
	if err := yaml.Load(text, &h, limits); err != nil {
		return nil, err
	}
	isDefault := h.Document == "modulemd-defaults"
	if !isDefault && (h.Document != "modulemd" || h.Version != 2) {
		return nil, nil
	}
	var b moduleData
	if err := h.Data.Decode(&b); err != nil {
		return nil, err
	}
	m := &Module{
		IsDefault: isDefault,
		Name:      cmp.Or(b.Module, b.Name),
		Stream:    b.Stream,
		Version:   b.Version,
		Context:   b.Context,
		Artifacts: b.Artifacts.RPMs,
	}
	for _, dep := range b.Dependencies {
		m.Requires = append(m.Requires, dep.Requires)
	}
	return m, nil
}
