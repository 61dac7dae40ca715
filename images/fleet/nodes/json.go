package nodes

import (
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// object is a node as the API has it: the fields that count.
type object struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name   string `json:"name"`
		Labels labels `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Taints []Taint `json:"taints"`
	} `json:"spec"`
	Status struct {
		NodeInfo struct {
			Architecture    string `json:"architecture"`
			KernelVersion   string `json:"kernelVersion"`
			OSImage         string `json:"osImage"`
			OperatingSystem string `json:"operatingSystem"`
		} `json:"nodeInfo"`
		Capacity struct {
			GPUs jsontext.Value `json:"nvidia.com/gpu"`
		} `json:"capacity"`
	} `json:"status"`
}

// labels reads an object of labels and keeps those that count.
type labels map[string]string

// UnmarshalJSONFrom reads one label after the other, so that those that are not kept cost no memory.
func (l *labels) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() == 'n' {
		return d.SkipValue()
	}
	if d.PeekKind() != '{' {
		return errors.New("labels is no object")
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	*l = labels{}
	for d.PeekKind() != '}' {
		key, err := d.ReadToken()
		if err != nil {
			return err
		}
		name := key.String()
		if !kept(name) {
			if err := d.SkipValue(); err != nil {
				return err
			}
			continue
		}
		if len(*l) == maxLabels {
			return fmt.Errorf("it has more than %d labels that count", maxLabels)
		}
		value, err := d.ReadToken()
		if err != nil {
			return err
		}
		text := value.String()
		if value.Kind() != '"' || !isPair(name, text) {
			return fmt.Errorf("the label %.100q: %.80q is none that an API server accepts", name, text)
		}
		(*l)[name] = text
	}
	_, err := d.ReadToken()
	return err
}

// list is what is known of the list while it is read.
type list struct {
	kind  string
	nodes []Node
	names map[string]bool
	// alone is the object itself, if it is a single node and no list.
	alone object
}

// readJSON reads a List, a NodeList or a single Node.
func readJSON(r io.Reader) ([]Node, error) {
	d := jsontext.NewDecoder(r)
	l := &list{names: map[string]bool{}}
	if err := l.read(d); err != nil {
		return nil, l.explain(err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: a second document follows the first: give one list", ErrFormat)
	}
	return l.nodes, nil
}

func (l *list) read(d *jsontext.Decoder) error {
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	hasItems := false
	for d.PeekKind() != '}' {
		key, err := d.ReadToken()
		if err != nil {
			return err
		}
		switch name := key.String(); name {
		case "kind":
			err = json.UnmarshalDecode(d, &l.kind)
		case "items":
			hasItems = true
			err = l.items(d)
		case "metadata":
			err = l.metadata(d)
		case "spec":
			err = json.UnmarshalDecode(d, &l.alone.Spec)
		case "status":
			err = l.status(d)
		case "message":
			var text string
			if err = json.UnmarshalDecode(d, &text); err == nil {
				return fmt.Errorf("the API server answered: %.200q", text)
			}
		default:
			err = d.SkipValue()
		}
		if err != nil {
			return err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	switch {
	case l.kind == "Node" && !hasItems:
		return l.add(&l.alone)
	case l.kind != "List" && l.kind != "NodeList":
		return fmt.Errorf("its kind is %.80q: want List, NodeList or Node", l.kind)
	case !hasItems:
		return errors.New("it has no items")
	}
	return nil
}

// metadata is of the list, or of a single node.
func (l *list) metadata(d *jsontext.Decoder) error {
	var m struct {
		Continue string `json:"continue"`
		Name     string `json:"name"`
		Labels   labels `json:"labels"`
	}
	if err := json.UnmarshalDecode(d, &m); err != nil {
		return err
	}
	if m.Continue != "" {
		return errors.New("it is the first part of a longer list (metadata.continue): ask without a limit")
	}
	l.alone.Metadata.Name, l.alone.Metadata.Labels = m.Name, m.Labels
	return nil
}

// status is of a single node, or the word "Failure" of an API server's refusal.
func (l *list) status(d *jsontext.Decoder) error {
	if d.PeekKind() == '"' {
		return d.SkipValue()
	}
	return json.UnmarshalDecode(d, &l.alone.Status)
}

func (l *list) items(d *jsontext.Decoder) error {
	if d.PeekKind() == 'n' { // Go's nil
		return d.SkipValue()
	}
	if d.PeekKind() != '[' {
		return errors.New("items is no array")
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != ']' {
		if d.PeekKind() == 0 { // the text ends, or is none of JSON
			_, err := d.ReadToken()
			return err
		}
		var o object
		if err := json.UnmarshalDecode(d, &o); err != nil {
			return err
		}
		if o.Kind != "" && o.Kind != "Node" {
			return fmt.Errorf("an item is a %.80q and no Node: give the nodes alone", o.Kind)
		}
		if err := l.add(&o); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// add checks what an API server would have checked, and keeps the node.
func (l *list) add(o *object) error {
	name := o.Metadata.Name
	switch {
	case !isName(name):
		return fmt.Errorf("%.80q is no name of a node", name)
	case l.names[name]:
		return fmt.Errorf("the node %s is there twice: give the nodes of one cluster", name)
	case len(l.nodes) == maxNodes:
		return fmt.Errorf("it has more than %d nodes", maxNodes)
	case len(o.Spec.Taints) > maxTaints:
		return fmt.Errorf("the node %s has more than %d taints", name, maxTaints)
	}
	for _, t := range o.Spec.Taints {
		if !isPair(t.Key, t.Value) {
			return fmt.Errorf("the taint %.100q: %.80q of the node %s is none that an API server accepts", t.Key, t.Value, name)
		}
	}
	l.names[name] = true
	info := o.Status.NodeInfo
	n := Node{Name: name, Labels: o.Metadata.Labels, Taints: o.Spec.Taints, Kernel: info.KernelVersion, OSImage: info.OSImage, Arch: info.Architecture}
	for _, key := range []string{LabelArch, LabelArchOld} { // servers before 1.3 reported none
		if n.Arch == "" {
			n.Arch = n.Labels[key]
		}
	}
	if info.OperatingSystem == "windows" {
		n.ID = "windows"
	}
	n.GPUs = gpusOf(n.Labels, o.Status.Capacity.GPUs)
	n.complete()
	l.nodes = append(l.nodes, n)
	return nil
}

// explain says where in the list an error was found.
func (l *list) explain(err error) error {
	where := "before its first node"
	if n := len(l.nodes); n > 0 {
		where = fmt.Sprintf("after %d nodes, the last of which is %s", n, l.nodes[n-1].Name)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: it ends %s: it was cut off, ask again", ErrFormat, where)
	}
	return fmt.Errorf("%w: %w (%s)", ErrFormat, err, where)
}
