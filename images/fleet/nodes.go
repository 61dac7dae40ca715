package fleet

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/osrelease"
	"github.com/driver-container/driver-container/distros/textfile"
	"github.com/driver-container/driver-container/images/matrix"
)

// ErrFormat says that the input is no list of nodes, or a damaged one.
var ErrFormat = failure.New(failure.Content, "no list of nodes")

// The bounds on a list.
const (
	maxInput  = 4 << 30 // bytes. 10,000 nodes with 50 images each have 290 MB
	maxNodes  = 100_000
	maxLabels = 4096 // of a node, of those that are kept
	maxTaints = 256  // of a node
	maxText   = 256  // bytes of a text that a machine says of itself
)

// Node is what decides about a machine.
type Node struct {
	Name string
	// those that choose nodes, or tell them apart; nil for a host without a cluster
	Labels map[string]string
	Taints []Taint

	Arch      string // Go's name: "amd64"
	Kernel    string // as uname -r prints it
	ID        string // of os-release, from labels or from OSImage; "" if neither is known
	VersionID string
	OSImage   string // PRETTY_NAME of os-release
	Runtime   string // of containers: "containerd://1.7.27"; "" for a host without a cluster
	Kubelet   string // "v1.35.2-eks-c39b1d0"; "" for a host without a cluster
	GPUs      GPUs

	// Fault says what is wrong with what the machine says of itself; "" if nothing is.
	Fault string

	// Loaded is a driver of which no label tells
	Loaded Loaded
}

// Taint is a taint of a node.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

// releaseShape is what the kernel allows (__NEW_UTS_LEN), as far as releases use it.
var releaseShape = regexp.MustCompile(`^[0-9][A-Za-z0-9._+~-]{0,63}$`)

// isWord reports whether a text has 1 to most bytes, which are letters, digits and . _ -, and
// begins and ends with a letter or digit.
func isWord(text string, most int) bool {
	const signs, alphanumeric = "._-", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return text != "" && len(text) <= most && strings.Trim(text, signs) == text &&
		strings.Trim(text, alphanumeric+signs) == ""
}

// isName reports whether a text is the name of a node: RFC 1123, in lower case.
func isName(text string) bool {
	return isWord(text, 253) && !strings.Contains(text, "_") && text == strings.ToLower(text)
}

// isPair reports whether a key and a value are those of a label or taint that an API server accepts
// (apimachinery, pkg/util/validation).
func isPair(key, value string) bool {
	prefix, name, ok := strings.Cut(key, "/")
	if !ok {
		prefix = "x"
		name = key
	}
	return isName(prefix) && isWord(name, 63) && (value == "" || isWord(value, 63))
}

// ReadNodes reads a list of nodes in JSON, or the answers of hosts (see [hostWord]). Its errors
// about the content wrap [ErrFormat].
func ReadNodes(r io.Reader) (all []Node, err error) {
	src := &bounded.Source{Reader: io.LimitReader(r, maxInput)}
	in := bufio.NewReader(textfile.NewReader(src))
	begin, _ := in.Peek(maxText) // an error of reading is in src
	switch begin = bytes.TrimLeft(begin, " \t\r\n"); {
	case len(begin) == 0:
		err = fmt.Errorf("%w: the input is empty: kubectl get nodes -o json prints one", ErrFormat)
	case begin[0] == '{':
		all, err = readJSON(in)
	case bytes.HasPrefix(begin, []byte(hostWord)):
		all, err = readHosts(in)
	case begin[0] == '[':
		err = fmt.Errorf(
			"%w: it is an array and no list of the API: give what kubectl get nodes -o json prints, or make a list of it: "+
				"jq '{kind: \"List\", items: .}'",
			ErrFormat,
		)
	default:
		err = fmt.Errorf(
			"%w: it begins with %.20q: a list begins with { (kubectl get nodes -o json), "+
				"answers of hosts with a line host NAME RELEASE MACHINE",
			ErrFormat,
			begin,
		)
	}
	if src.Err != nil {
		return nil, fmt.Errorf("read the list of nodes: %w", src.Err)
	}
	return all, err
}

// complete fills in what follows from the fields that were read, and checks what the machine says
// of itself.
func (n *Node) complete() {
	for _, a := range distros.Archs() { // hosts say uname -m
		if n.Arch == a.Kernel {
			n.Arch = a.Name
		}
	}
	if id, ok := n.Labels[LabelOSID]; ok {
		n.ID = id
		n.VersionID = n.Labels[LabelOSVersion]
	}
	// Garden Linux has no VERSION_ID, and its values for the GPU Operator set this label to 0. A
	// system with a way of its own, such as RHEL CoreOS, may have the ID of the one that it is made
	// of.
	if id, version, ok := osrelease.ParseImage(n.OSImage); ok &&
		(n.ID == "" || n.ID == id && (n.VersionID == "" || n.VersionID == "0") || n.ID != id && osrelease.OwnWay(id) != "") {
		n.ID = id
		n.VersionID = version
	}
	n.ID = osrelease.Variant(n.ID, strings.ToLower(n.Labels[labelSKU]))
	for _, text := range []struct{ what, value string }{
		{"system", n.OSImage},
		{"architecture", n.Arch},
		{"ID of the system", n.ID},
		{"version of the system", n.VersionID},
		{"container runtime", n.Runtime},
		{"version of the kubelet", n.Kubelet},
	} {
		if len(text.value) > maxText ||
			strings.ContainsFunc(
				text.value,
				func(r rune) bool { return r < ' ' || r == 0x7f || r == 0xfffd },
			) {
			n.Fault = fmt.Sprintf(
				"what it reports as its %s is no such text: %.80q",
				text.what,
				text.value,
			)
			return
		}
	}
	switch {
	case n.Kernel == "":
		n.Fault = "it reports no kernel"
	case !releaseShape.MatchString(n.Kernel):
		n.Fault = fmt.Sprintf("what it reports as its kernel is no release: %.80q", n.Kernel)
	}
}

// readsZstd reports whether the container runtime unpacks layers of zstd. Versions of CRI-O follow
// those of Kubernetes, and all that the chart runs on do.
func (n *Node) readsZstd() bool {
	name, version, _ := strings.Cut(n.Runtime, "://")
	version, _, _ = strings.Cut(version, "-") // 23.0.0-rc.1 has what 23.0 has
	since := map[string]string{"containerd": "1.5", "docker": "23.0"}[name]
	return since == "" || matrix.CompareVersions(version, since) >= 0
}
