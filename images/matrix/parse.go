package matrix

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
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

// Parse parses a matrix. name is only for messages. The error is of type [Errors] and has every mistake: for
// a text that is not YAML, the first one of the YAML parser; otherwise all mistakes against the schema and in
// the references between the parts of the file.
//
// Values are taken as written: the version 418.10 is the text "418.10", not a number. Parse refuses anchors,
// aliases, explicit tags, and several documents in one file.
func Parse(name string, data []byte) (*Matrix, error) { return ParseWithFiles(name, data, Files{}) }

// Files read the files that a matrix names. An error is a mistake at the place of the name. nil: the
// names stay.
type Files struct {
	Key   func(file string) (string, error) // of a repository: the text replaces the name
	Patch func(file string) (string, error) // a path beside the matrix
}

// ParseWithFiles is Parse, and reads the files that the matrix names.
func ParseWithFiles(name string, data []byte, files Files) (*Matrix, error) {
	m := &Matrix{Defaults: Defaults{Profile: ProfileFull}}
	d := &decoder{file: name, files: files, m: m, known: map[string]*row{}}
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
	if line, col, fault := invalidText(data); fault != "" {
		d.errorAt(line, col, fault)
		return nil
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithPlugin(
		loaderlimits.New(loaderlimits.DepthValue(maxDepth), loaderlimits.AliasValue(0))))
	if err != nil {
		d.errorAt(0, 0, err.Error())
		return nil
	}
	var doc, second yaml.Node
	if err := loader.Load(&doc); errors.Is(err, io.EOF) {
		d.errorAt(0, 0, "the file is empty: it needs at least the keys systems and drivers")
		return nil
	} else if err != nil {
		d.loadErrors(data, err)
		return nil
	}
	if err := loader.Load(&second); err == nil {
		d.errorf(&second, "a second document: a matrix is one document, remove the line ---")
	} else if !errors.Is(err, io.EOF) {
		d.loadErrors(data, err)
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 || doc.Content[0].Tag == "!!null" {
		d.errorAt(0, 0, "the file is empty: it needs at least the keys systems and drivers")
		return nil
	}
	return doc.Content[0]
}

// loadErrors records the mistakes that the YAML parser found, each with its position.
func (d *decoder) loadErrors(data []byte, err error) {
	record := func(e *yaml.LoadError) {
		if col := tabIndent(data, e.Mark.Line); col > 0 {
			d.errorAt(e.Mark.Line, col, "not valid YAML: a tab in the indentation, which has blanks alone")
			return
		}
		d.errorAt(e.Mark.Line, e.Mark.Column, yamlMessage(e))
	}
	var many *yaml.LoadErrors
	var one *yaml.LoadError
	switch {
	case errors.As(err, &many):
		for _, e := range many.Errors {
			record(e)
		}
	case errors.As(err, &one):
		record(one)
	default:
		d.errorAt(0, 0, err.Error())
	}
}

// tabIndent returns the column of the first tab in the indentation of a line, 0 for none. The parser's own
// message does not name the tab.
func tabIndent(data []byte, line int) int {
	lines := bytes.Split(data, []byte("\n"))
	if line < 1 || line > len(lines) {
		return 0
	}
	text := lines[line-1]
	return 1 + bytes.IndexByte(text[:len(text)-len(bytes.TrimLeft(text, " \t"))], '\t')
}

func yamlMessage(e *yaml.LoadError) string {
	if e.ContextMsg != "" {
		return "not valid YAML: " + e.Message + " " + e.ContextMsg
	}
	return "not valid YAML: " + e.Message
}

// invalidText returns the position of the first byte that is not UTF-8, or of the first control character
// that YAML does not allow: the parser reports neither with its position.
func invalidText(data []byte) (line, col int, fault string) {
	line, col = 1, 1
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		switch {
		case r == utf8.RuneError && n == 1:
			return line, col, "not UTF-8"
		case unicode.IsControl(r) && r != '\t' && r != '\n' && r != '\r' && r != 0x85:
			return line, col, fmt.Sprintf("the control character %U: remove it", r)
		case r == '\n':
			line, col = line+1, 0
		}
		col++
		data = data[n:]
	}
	return 0, 0, ""
}
