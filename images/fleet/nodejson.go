package fleet

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// object is a node as the API has it, or a list of nodes: the fields that count.
type object struct {
	Kind     string `json:"kind"`
	Message  string `json:"message"` // of an API server's refusal
	Metadata struct {
		Name     string            `json:"name"`
		Labels   map[string]string `json:"labels"`
		Continue string            `json:"continue"` // of a list
	} `json:"metadata"`
	Spec struct {
		Taints []Taint `json:"taints"`
	} `json:"spec"`
	Status report  `json:"status"`
	Items  *[]item `json:"items"`
}

// item stands for a node of the list, which is kept elsewhere.
type item struct{}

type report struct {
	NodeInfo struct {
		Architecture    string `json:"architecture"`
		KernelVersion   string `json:"kernelVersion"`
		OSImage         string `json:"osImage"`
		OperatingSystem string `json:"operatingSystem"`
		Runtime         string `json:"containerRuntimeVersion"`
		KubeletVersion  string `json:"kubeletVersion"`
	} `json:"nodeInfo"`
	Capacity   map[string]jsontext.Value `json:"capacity"`
	Conditions []struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"conditions"`
}

// announced are resources of the device plugin: whole GPUs, and GPUs that several containers share.
// Parts of GPUs (MIG) have one for each size.
var announced = []string{"nvidia.com/gpu", "nvidia.com/gpu.shared"}

// announcesGPUs reports whether the device plugin has announced GPUs.
func (r *report) announcesGPUs() bool {
	for name, amount := range r.Capacity {
		of := slices.Contains(announced, name) || strings.HasPrefix(name, "nvidia.com/mig-")
		count := strings.Trim(string(amount), `"`)
		if of && !slices.Contains([]string{"", "0", "null"}, count) {
			return true
		}
	}
	return false
}

// loaded returns the driver that the condition of driver-entrypoint names.
func (r *report) loaded() Loaded {
	for _, c := range r.Conditions {
		found := served.FindStringSubmatch(c.Message)
		if c.Type == conditionType && found != nil {
			return Loaded{found[1], fromCondition}
		}
	}
	return Loaded{}
}

// list is what is known of the list while it is read.
type list struct {
	nodes []Node
	names map[string]bool
}

// readJSON reads a List, a NodeList or a single Node.
func readJSON(r io.Reader) ([]Node, error) {
	l := list{names: map[string]bool{}}
	err := l.read(r)
	if err != nil {
		return nil, l.damaged(err)
	}
	return l.nodes, nil
}

// damaged says after which node the input is wrong.
func (l *list) damaged(err error) error {
	if wrong, ok := errors.AsType[*json.SemanticError](err); ok && wrong.Err != nil {
		err = wrong.Err
	}
	where := "before its first node"
	if n := len(l.nodes); n > 0 {
		where = fmt.Sprintf("after %d nodes, the last of which is %s", n, l.nodes[n-1].Name)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends %s: it was cut off, ask again", ErrFormat, where)
	}
	return fmt.Errorf("%w: %w (%s)", ErrFormat, err, where)
}

// read reads one node after the other.
func (l *list) read(r io.Reader) error {
	each := json.UnmarshalFromFunc(func(d *jsontext.Decoder, _ *item) error {
		var o object
		if err := json.UnmarshalDecode(d, &o); err != nil {
			return err
		}
		if o.Kind != "" && o.Kind != "Node" {
			return fmt.Errorf("an item is a %.80q and no Node: give the nodes alone", o.Kind)
		}
		return l.add(&o)
	})
	refusal := json.UnmarshalFromFunc(func(d *jsontext.Decoder, _ *report) error {
		if d.PeekKind() == '"' { // the word "Failure" of an API server's refusal
			return d.SkipValue()
		}
		return errors.ErrUnsupported
	})
	in := jsontext.NewDecoder(r)
	var o object
	all := json.WithUnmarshalers(json.JoinUnmarshalers(each, refusal))
	if err := json.UnmarshalDecode(in, &o, all); err != nil {
		return err
	}
	if err := l.close(&o); err != nil {
		return err
	}
	return atEnd(in)
}

// atEnd returns an error if another document follows. JSON lines are not read: nothing would show
// that lines are missing.
func atEnd(in *jsontext.Decoder) error {
	_, err := in.ReadToken()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("after the list: %w", err)
	}
	return errors.New(
		"another document follows, as in JSON lines: give one list, as kubectl get nodes -o json prints it, " +
			"or make one of the nodes: jq -s '{kind: \"List\", items: .}'",
	)
}

// close checks the outermost object, which may be a node itself.
func (l *list) close(o *object) error {
	switch {
	case o.Message != "":
		return fmt.Errorf("the API server answered: %.200q", o.Message)
	case o.Metadata.Continue != "":
		return errors.New(
			"it is the first part of a longer list (metadata.continue): ask without a limit",
		)
	case o.Kind == "Node" && o.Items == nil:
		return l.add(o)
	case o.Kind != "List" && o.Kind != "NodeList":
		return fmt.Errorf("its kind is %.80q: want List, NodeList or Node", o.Kind)
	case o.Items == nil:
		return errors.New("it has no items")
	}
	return nil
}

// add checks what an API server would have checked, and keeps the node with the labels that count.
func (l *list) add(o *object) error {
	name := o.Metadata.Name
	info := o.Status.NodeInfo
	var labels map[string]string
	if o.Metadata.Labels != nil { // the others are let go with their map
		labels = map[string]string{}
	}
	for key, value := range o.Metadata.Labels {
		if kept(key) {
			labels[key] = value
		}
	}
	switch {
	case !isName(name):
		return fmt.Errorf("%.80q is no name of a node", name)
	case l.names[name]:
		return fmt.Errorf("the node %s is there twice: give the nodes of one cluster", name)
	case len(l.nodes) == maxNodes:
		return fmt.Errorf("it has more than %d nodes", maxNodes)
	case len(o.Spec.Taints) > maxTaints:
		return fmt.Errorf("the node %s has more than %d taints", name, maxTaints)
	case len(labels) > maxLabels:
		return fmt.Errorf("the node %s has more than %d labels that count", name, maxLabels)
	}
	for key, value := range labels {
		if !isPair(key, value) {
			return fmt.Errorf("the label %.100q: %.80q is none that an API server accepts", key, value)
		}
	}
	for _, t := range o.Spec.Taints {
		if !isPair(t.Key, t.Value) {
			return fmt.Errorf("the taint %.100q: %.80q of the node %s is none that an API server accepts", t.Key, t.Value, name)
		}
	}
	l.names[name] = true
	n := Node{Name: name, Labels: labels, Taints: o.Spec.Taints, Kernel: info.KernelVersion, OSImage: info.OSImage, Arch: info.Architecture, Runtime: info.Runtime, Kubelet: info.KubeletVersion}
	for _, key := range []string{LabelArch, LabelArchOld} { // servers before 1.3 reported none
		if n.Arch == "" {
			n.Arch = n.Labels[key]
		}
	}
	if info.OperatingSystem == "windows" {
		n.ID = "windows"
	}
	n.GPUs = gpusOf(n.Labels, o.Status.announcesGPUs())
	n.Loaded = o.Status.loaded()
	n.complete()
	l.nodes = append(l.nodes, n)
	return nil
}
