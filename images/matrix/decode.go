package matrix

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/distros/driverinfo"
)

// decoder walks the nodes of a file and collects every mistake with its position. It continues
// after each one and omits the wrong value, so that the rest of the file is checked too.
type decoder struct {
	file  string
	errs  Errors
	files Files
	later []func() // checks that need the whole file
	m     *Matrix
	known map[string][]field // of mappings, by type and forms from above
}

func (d *decoder) errorAt(line, col int, message string) {
	d.errs = append(d.errs, Error{File: d.file, Line: line, Col: col, Message: message})
}

func (d *decoder) errorf(n *yaml.Node, format string, args ...any) {
	d.errorAt(n.Line, n.Column, fmt.Sprintf(format, args...))
}

// tooManyErrors reports that there are more mistakes than will be reported, so the walk can stop.
func (d *decoder) tooManyErrors() bool { return len(d.errs) > maxErrors }

// is refuses a node of another kind than the wanted one, and YAML features that a matrix does not
// need: anchors and aliases (a few lines of them can stand for gigabytes) and explicit tags.
func (d *decoder) is(n *yaml.Node, what string, kind yaml.Kind, want string) bool {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		d.errorf(n, "%s uses a YAML anchor or alias: write the value out", what)
	case n.Style&yaml.TaggedStyle != 0:
		d.errorf(n, "%s has a YAML tag: remove it", what)
	case n.Kind != kind:
		d.errorf(n, "%s must be %s, not %s", what, want, kindOf(n))
	default:
		return true
	}
	return false
}

// nouns are what messages call the rows of lists.
var nouns = map[reflect.Type]string{
	reflect.TypeFor[Matrix](): "the matrix", reflect.TypeFor[System](): "a system", reflect.TypeFor[Repository](): "a repository",
	reflect.TypeFor[Driver](): "a driver", reflect.TypeFor[Archive](): "an archive", reflect.TypeFor[Patch](): "a patch",
	reflect.TypeFor[Exclusion](): "an exclusion", reflect.TypeFor[Companion](): "a companion", reflect.TypeFor[Advisory](): "an advisory",
	reflect.TypeFor[AdvisoryNodes](): "the nodes of an advisory", reflect.TypeFor[EndOfLife](): "an end of life",
	reflect.TypeFor[Interface](): "an interface", reflect.TypeFor[driverinfo.Broken](): "a range of broken kernels",
}

// field is a key of a mapping.
type field struct {
	name     string
	index    []int
	required bool
	forms    []string
}

// fieldsOf returns the keys of a struct by their names. The tag m has the name, with ! if the key
// must be there, and of the names of forms: those of the keys of maps, outermost first, then that
// of the value; ^ is what is above. Types of driverinfo have the names of their JSON instead; their
// values have the forms of foreign, or those of the key above.
func (d *decoder) fieldsOf(t reflect.Type, inherited []string) (all []field) {
	id := t.String() + strings.Join(inherited, ":")
	if known, ok := d.known[id]; ok {
		return known
	}
	for _, f := range reflect.VisibleFields(t) {
		tag, ours := f.Tag.Lookup("m")
		name, required := strings.CutSuffix(tag, "!")
		forms := inherited
		if of := f.Tag.Get("of"); of != "^" {
			forms = strings.Split(of, ":")
		}
		if !ours {
			inJSON, foreigner := f.Tag.Lookup("json")
			if !foreigner ||
				t.PkgPath() == reflect.TypeFor[Matrix]().PkgPath() && len(f.Index) == 1 {
				continue
			}
			name, _, _ = strings.Cut(inJSON, ",")
			required = !strings.Contains(inJSON, "omitempty")
			forms = inherited
			if form, ok := foreign[name]; ok {
				forms = []string{form}
			}
		}
		all = append(all, field{name, f.Index, required, forms})
	}
	d.known[id] = all
	return all
}

// read stores what a node has. what is the name of its key.
func (d *decoder) read(n *yaml.Node, what string, to reflect.Value, forms []string) {
	switch to.Kind() {
	case reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		d.read(n, what, to.Elem(), forms)
	case reflect.Struct:
		d.mapping(n, what, to, forms)
	case reflect.Map:
		to.Set(reflect.MakeMap(to.Type()))
		d.pairs(n, what, func(name string, at, value *yaml.Node) {
			if wrong := formats[forms[0]](name); wrong != "" {
				d.errorf(at, "key %s of %s %s", quoted(name), what, wrong)
			}
			one := reflect.New(to.Type().Elem()).Elem()
			below := what
			if one.Kind() != reflect.Struct { // which has a noun
				below += " of " + quoted(name)
			}
			d.read(value, below, one, forms[1:])
			to.SetMapIndex(reflect.ValueOf(name), one)
		})
	case reflect.Slice:
		d.list(n, what, to, forms)
	default:
		d.scalar(n, what, to, forms)
	}
}

// mapping reads a mapping with known keys.
func (d *decoder) mapping(n *yaml.Node, what string, to reflect.Value, forms []string) {
	key := what
	if noun, ok := nouns[to.Type()]; ok {
		what = noun
	}
	if to.Type() == reflect.TypeFor[driverinfo.Span]() {
		what = "a range of " + what
	}
	fields := d.fieldsOf(to.Type(), forms)
	seen := d.pairs(n, what, func(name string, at, value *yaml.Node) {
		if i := slices.IndexFunc(fields, func(f field) bool { return f.name == name }); i >= 0 {
			d.read(value, name, to.FieldByIndex(fields[i].index), fields[i].forms)
		} else {
			d.errorf(at, "unknown key %s in %s%s", quoted(name), what, suggest(name, names(fields, func(f field) string { return f.name })))
		}
	})
	for _, f := range fields {
		if f.required && seen != nil && seen[f.name] == 0 {
			d.errorf(n, "%s has no key %s", what, f.name)
		}
	}
	if seen != nil {
		d.later = append(d.later, func() { d.checkRow(to.Addr().Interface(), key, n) })
	}
}

// pairs calls visit once for each key of a mapping and refuses the second of two equal keys. It
// returns the keys, or nil when the node is not a mapping.
func (d *decoder) pairs(
	n *yaml.Node,
	what string,
	visit func(name string, at, value *yaml.Node),
) map[string]int {
	if !d.is(n, what, yaml.MappingNode, "a mapping (key: value)") {
		return nil
	}
	seen := map[string]int{} // the line of each key
	for i := 0; i+1 < len(n.Content) && !d.tooManyErrors(); i += 2 {
		at := n.Content[i]
		value := n.Content[i+1]
		if !d.is(at, "a key of "+what, yaml.ScalarNode, "a word") {
			continue
		}
		if first := seen[at.Value]; first > 0 {
			d.errorf(
				at,
				"key %s appears twice in %s: first on line %d",
				quoted(at.Value),
				what,
				first,
			)
			continue
		}
		seen[at.Value] = at.Line
		visit(at.Value, at, value)
	}
	return seen
}

// list reads a sequence, and refuses the second of two equal words.
func (d *decoder) list(n *yaml.Node, what string, to reflect.Value, forms []string) {
	if !d.is(n, what, yaml.SequenceNode, "a list") {
		return
	}
	if len(n.Content) == 0 {
		d.errorf(n, "%s is an empty list: fill it or remove the key", what)
	}
	words := to.Type().Elem().Kind() == reflect.String
	seen := map[string]bool{}
	// checks keep pointers to the rows
	to.Set(reflect.MakeSlice(to.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		if d.tooManyErrors() {
			return
		}
		if !words {
			d.read(item, what, to.Index(i), forms)
			continue
		}
		d.read(item, "an entry of "+what, to.Index(i), forms)
		word := to.Index(i).String() // "" after a mistake
		if word != "" && seen[word] {
			d.errorf(item, "%s appears twice in %s", quoted(word), what)
		}
		seen[word] = true
	}
}

// scalar reads a single value as written.
func (d *decoder) scalar(n *yaml.Node, what string, to reflect.Value, forms []string) {
	if !d.is(n, what, yaml.ScalarNode, "a single value") {
		return
	}
	if n.Value == "" || n.Tag == "!!null" {
		d.errorf(n, "%s is empty: fill it or remove the key", what)
		return
	}
	wrong := ""
	switch to.Kind() {
	case reflect.Bool:
		if n.Value != "true" && n.Value != "false" {
			wrong = "must be true or false"
		}
		to.SetBool(n.Value == "true")
	case reflect.Int64:
		size, err := strconv.ParseInt(n.Value, 10, 64)
		if err != nil || size <= 0 {
			wrong = "must be a number of bytes greater than 0; leave the key out when it is not known"
		}
		to.SetInt(size)
	default:
		wrong = formats[forms[len(forms)-1]](n.Value)
		if wrong == "" {
			to.SetString(n.Value)
		}
	}
	if wrong != "" {
		d.errorf(n, "%s %s %s", what, quoted(n.Value), wrong)
	}
}

// child returns the value of a key in a mapping, or the mapping itself when there is none.
func child(n *yaml.Node, name string) *yaml.Node {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return n
}

// kindOf returns the kind of a node, for messages.
func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null":
		return "empty"
	}
	return "the value " + quoted(n.Value)
}
