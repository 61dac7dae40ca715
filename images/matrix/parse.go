package matrix

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// Bounds of a file. The schema is at most 6 levels deep.
const (
	MaxSize  = 1 << 20 // in bytes
	maxDepth = 16
)

// Parse parses a matrix. name is only for messages. The error is of type [Errors] and has every
// mistake: for a text that is not YAML, the first one of the YAML parser; otherwise all mistakes
// against the schema and in the references between the parts of the file.
//
// Values are taken as written: the version 418.10 is the text "418.10", not a number. Parse refuses
// anchors, aliases, explicit tags, and several documents in one file.
func Parse(name string, data []byte) (*Matrix, error) { return ParseWithFiles(name, data, Files{}) }

// Files read the files that a matrix names. An error is a mistake at the place of the name. nil:
// the names stay.
type Files struct {
	Key   func(file string) (string, error) // of a repository: the text replaces the name
	Patch func(file string) (string, error) // a path beside the matrix
}

// ParseWithFiles is Parse, and reads the files that the matrix names.
func ParseWithFiles(name string, data []byte, files Files) (*Matrix, error) {
	m := &Matrix{Defaults: Defaults{Profile: Profiles()[0]}}
	d := &decoder{file: name, files: files, m: m, known: map[string][]field{}}
	if root := d.load(data); root != nil {
		d.read(root, "", reflect.ValueOf(m).Elem(), nil)
		for _, check := range d.later {
			if !d.tooManyErrors() {
				check()
			}
		}
	}
	if len(d.errs) > 0 {
		return nil, d.errs.sorted()
	}
	return m, nil
}

// load returns the root of the only document, or nil after a mistake.
func (d *decoder) load(data []byte) *yaml.Node {
	if len(data) > MaxSize {
		d.errorAt(0, 0, fmt.Sprintf("%d bytes are too many for a matrix (at most %d)", len(data), MaxSize))
		return nil
	}
	if at := bytes.IndexFunc(data, unfit); at >= 0 {
		line := data[bytes.LastIndexByte(data[:at], '\n')+1 : at]
		fault := "not UTF-8"
		if r, _ := utf8.DecodeRune(data[at:]); r != utf8.RuneError {
			fault = fmt.Sprintf("the control character %U: remove it", r)
		}
		d.errorAt(1+bytes.Count(data[:at], []byte("\n")), 1+utf8.RuneCount(line), fault)
		return nil
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithPlugin(
		loaderlimits.New(loaderlimits.DepthValue(maxDepth), loaderlimits.AliasValue(0))))
	if err != nil {
		d.errorAt(0, 0, err.Error())
		return nil
	}
	var doc, second yaml.Node
	if err := loader.Load(&doc); err != nil && !errors.Is(err, io.EOF) {
		d.loadError(data, err)
		return nil
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 || doc.Content[0].Tag == "!!null" {
		d.errorAt(0, 0, "the file is empty: it needs at least the keys systems and drivers")
		return nil
	}
	switch err := loader.Load(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		d.loadError(data, err)
	default:
		d.errorf(&second, "a second document: a matrix is one document, remove the line ---")
	}
	return doc.Content[0]
}

// loadError records the mistake at which the YAML parser stopped. Its message does not name a tab
// in the indentation.
func (d *decoder) loadError(data []byte, err error) {
	e, ok := errors.AsType[*yaml.LoadError](err)
	if !ok {
		d.errorAt(0, 0, err.Error())
		return
	}
	lines := bytes.Split(data, []byte("\n"))
	if e.Mark.Line > 0 && e.Mark.Line <= len(lines) {
		blanks := len(tabbed.Find(lines[e.Mark.Line-1]))
		if blanks > 0 {
			d.errorAt(e.Mark.Line, blanks, "not valid YAML: a tab in the indentation, which has blanks alone")
			return
		}
	}
	message := strings.TrimSpace("not valid YAML: " + e.Message + " " + e.ContextMsg)
	d.errorAt(e.Mark.Line, e.Mark.Column, message)
}

// tabbed is an indentation up to its first tab.
var tabbed = regexp.MustCompile(`^ *\t`)

// unfit reports whether a character is a control character that YAML does not allow, or none of
// UTF-8: the parser reports neither with its position.
func unfit(r rune) bool {
	return r == utf8.RuneError || unicode.IsControl(r) && !strings.ContainsRune("\t\n\r\u0085", r)
}
