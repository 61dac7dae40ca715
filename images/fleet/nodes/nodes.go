package nodes

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/osrelease"
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
	Name   string
	Labels map[string]string // those that choose nodes, or tell them apart; nil for a host without a cluster
	Taints []Taint

	Arch      string // Go's name: "amd64"
	Kernel    string // as uname -r prints it
	ID        string // of os-release, from labels or from OSImage; "" if neither is known
	VersionID string
	OSImage   string // PRETTY_NAME of os-release
	GPUs      GPUs

	// Fault says what is wrong with what the machine says of itself; "" if nothing is.
	Fault string
}

// Taint is a taint of a node.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

// releaseShape is what the kernel allows (__NEW_UTS_LEN), as far as releases use it.
var releaseShape = regexp.MustCompile(`^[0-9][A-Za-z0-9._+~-]{0,63}$`)

// isWord reports whether a text has 1 to most bytes, which are letters, digits and . _ -, and begins and ends
// with a letter or digit.
func isWord(text string, most int) bool {
	isAlphanumeric := func(c byte) bool { return c-'0' < 10 || (c|0x20)-'a' < 26 }
	if text == "" || len(text) > most || !isAlphanumeric(text[0]) || !isAlphanumeric(text[len(text)-1]) {
		return false
	}
	for i := range len(text) {
		if c := text[i]; !isAlphanumeric(c) && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
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
		prefix, name = "x", key
	}
	return isName(prefix) && isWord(name, 63) && (value == "" || isWord(value, 63))
}

// Read reads a list of nodes in JSON, or the answers of hosts (see [hostWord]). Its errors about the content
// wrap [ErrFormat].
func Read(r io.Reader) ([]Node, error) {
	src := &source{r: r}
	in := bufio.NewReaderSize(src, 1<<16)
	begin, err := skipBlanks(in)
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%w: the input is empty: kubectl get nodes -o json prints one", ErrFormat)
	case err != nil:
		return nil, src.explain(err)
	case begin[0] == '{':
		all, err := readJSON(in)
		return all, src.explain(err)
	case bytes.HasPrefix(begin, []byte(hostWord)):
		all, err := readHosts(in)
		return all, src.explain(err)
	}
	return nil, fmt.Errorf("%w: it begins with %.20q: %s", ErrFormat, begin, advice(string(begin)))
}

// source is the input, with its bound and its own error.
type source struct {
	r   io.Reader
	n   int64
	err error // of reading, not of what was read
}

// Read is that of io.Reader.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if s.n += int64(n); s.n > maxInput {
		err = fmt.Errorf("%w: it has more than %d bytes", ErrFormat, int64(maxInput))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// explain puts an error of reading in the place of what a reader made of it.
func (s *source) explain(err error) error {
	switch {
	case err == nil || s.err == nil:
		return err
	case errors.Is(s.err, ErrFormat):
		return s.err
	}
	return fmt.Errorf("read the list of nodes: %w", s.err)
}

// skipBlanks returns the first bytes that are no blanks, without consuming them.
func skipBlanks(in *bufio.Reader) ([]byte, error) {
	for range maxText {
		c, err := in.ReadByte()
		if err != nil {
			return nil, err
		}
		if strings.IndexByte(" \t\r\n", c) >= 0 {
			continue
		}
		if err := in.UnreadByte(); err != nil {
			return nil, err
		}
		begin, err := in.Peek(20)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		return begin, nil
	}
	return nil, fmt.Errorf("%w: it begins with more than %d blanks", ErrFormat, maxText)
}

// advice says which command was probably meant.
func advice(begin string) string {
	switch {
	case strings.HasPrefix(begin, "apiVersion") || strings.HasPrefix(begin, "---"):
		return "that is YAML: use kubectl get nodes -o json"
	case strings.HasPrefix(begin, "NAME"):
		return "that is a table: use kubectl get nodes -o json"
	case strings.HasPrefix(begin, "["):
		return "that is a bare array: give the whole answer of kubectl get nodes -o json"
	}
	return "a list begins with { (kubectl get nodes -o json), answers of hosts begin with a line host NAME RELEASE MACHINE"
}

// complete fills in what follows from the fields that were read, and checks what the machine says of itself.
func (n *Node) complete() {
	if a, ok := archOf(n.Arch); ok {
		n.Arch = a
	}
	if id, ok := n.Labels[LabelOSID]; ok {
		n.ID, n.VersionID = id, n.Labels[LabelOSVersion]
	}
	// Garden Linux has no VERSION_ID, and its values for the GPU Operator set this label to 0. A system with a
	// way of its own, such as RHEL CoreOS, may have the ID of the one that it is made of.
	if id, version, ok := osrelease.ParseImage(n.OSImage); ok &&
		(n.ID == "" || n.ID == id && (n.VersionID == "" || n.VersionID == "0") || n.ID != id && osrelease.OwnWay(id) != "") {
		n.ID, n.VersionID = id, version
	}
	for _, text := range []struct{ what, value string }{{"system", n.OSImage}, {"architecture", n.Arch}, {"ID of the system", n.ID}, {"version of the system", n.VersionID}} {
		if len(text.value) > maxText || strings.ContainsFunc(text.value, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0xfffd }) {
			n.Fault = fmt.Sprintf("what it reports as its %s is no such text: %.80q", text.what, text.value)
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

// archOf returns Go's name of an architecture: nodes of Kubernetes have it already, hosts say uname -m.
func archOf(machine string) (string, bool) {
	for _, a := range distros.Archs() {
		if machine == a.Name || machine == a.Kernel {
			return a.Name, true
		}
	}
	return "", false
}
