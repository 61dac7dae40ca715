package fleet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// wrap puts text between the braces of a node's metadata.
func wrap(metadata string) string {
	return `{"kind": "List", "items": [{"kind": "Node", "metadata": {` + metadata + `}, "status": {"nodeInfo": {"architecture": "amd64", "kernelVersion": "6.1.0-56-amd64", "osImage": "Debian GNU/Linux 12 (bookworm)"}}}]}`
}

// TestRefused: what is no list of nodes, and what no API server would have stored.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"nothing":                {"", "the input is empty: kubectl get nodes -o json prints one"},
		"YAML":                   {"apiVersion: v1\nitems:\n", "a list begins with { (kubectl get nodes -o json)"},
		"an array":               {"[]", "it is an array and no list of the API"},
		"no kind":                {"{}", `its kind is ""`},
		"another kind":           {`{"kind": "PodList", "items": []}`, `its kind is "PodList": want List, NodeList or Node`},
		"a refusal":              {`{"kind": "Status", "status": "Failure", "message": "nodes is forbidden"}`, `the API server answered: "nodes is forbidden"`},
		"no items":               {`{"kind": "List"}`, "it has no items"},
		"other items":            {`{"kind": "List", "items": [{"kind": "Pod", "metadata": {"name": "a"}}]}`, `an item is a "Pod" and no Node`},
		"a part of a list":       {`{"metadata": {"continue": "x"}, "kind": "NodeList", "items": []}`, "it is the first part of a longer list"},
		"two documents":          {`{"kind": "List", "items": []} {"kind": "List", "items": []}`, "another document follows, as in JSON lines: give one list"},
		"JSON lines":             {`{"kind": "Node", "metadata": {"name": "a"}}` + "\n" + `{"kind": "Node", "metadata": {"name": "b"}}`, "jq -s '{kind: \"List\", items: .}'"},
		"JSON lines, cut off":    {`{"kind": "Node", "metadata": {"name": "a"}}` + "\n" + `{"kind": "No`, "another document follows"},
		"text after the list":    {`{"kind": "List", "items": []} x`, "after the list: jsontext: invalid character 'x'"},
		"cut off":                {wrap(`"name": "a"`)[:120], "it ends before its first node: it was cut off"},
		"cut off later":          {strings.Replace(wrap(`"name": "a"`), "]}", `, {"kind": "Node", `, 1), "it ends after 1 nodes, the last of which is a: it was cut off"},
		"a name twice":           {`{"kind": "List", "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "a"}}]}`, "the node a is there twice"},
		"a key twice":            {wrap(`"name": "a", "name": "b"`), "duplicate"},
		"no name":                {wrap(``), `"" is no name of a node`},
		"a name with a path":     {wrap(`"name": "../a"`), `"../a" is no name of a node`},
		"a name in upper case":   {wrap(`"name": "A"`), `"A" is no name of a node`},
		"a label with a newline": {wrap(`"name": "a", "labels": {"nvidia.com/x": "a\nb"}`), `the label "nvidia.com/x": "a\nb" is none that an API server accepts`},
		"a label's long value":   {wrap(`"name": "a", "labels": {"nvidia.com/x": "` + strings.Repeat("a", 64) + `"}`), "is none that an API server accepts"},
		"a label's wrong key":    {wrap(`"name": "a", "labels": {"nvidia.com/../x": "a"}`), "is none that an API server accepts"},
		"a label that is none":   {wrap(`"name": "a", "labels": {"nvidia.com/x": {"a": 1}}`), "unmarshal JSON object"},
		"invalid UTF-8":          {wrap("\"name\": \"a\", \"labels\": {\"nvidia.com/x\": \"\xff\"}"), "invalid UTF-8"},
		"a taint with a blank":   {strings.Replace(wrap(`"name": "a"`), `"status"`, `"spec": {"taints": [{"key": "a b", "effect": "NoSchedule"}]}, "status"`, 1), `the taint "a b": "" of the node a`},
		"many labels":            {wrap(`"name": "a", "labels": {` + series(maxLabels+1, `"nvidia.com/l%d": "1"`) + `}`), "more than 4096 labels"},
		"many taints": {strings.Replace(wrap(`"name": "a"`), `"status"`, `"spec": {"taints": [`+series(maxTaints+1, `{"key": "k%d", "effect": "NoSchedule"}`)+`]}, "status"`, 1),
			"more than 256 taints"},
		"deep":                      {`{"a": ` + strings.Repeat("[", 20000), "exceeded max depth"},
		"hosts":                     {"host a 6.1.0-1-amd64\n", "want NAME RELEASE MACHINE"},
		"hosts, a name with a path": {"host ../a 6.1.0-1-amd64 x86_64\n", `"../a" is no name of a host`},
		"hosts, a name twice":       {"host a 6.1 x86_64\nend\nhost a 6.1 x86_64\nend\n", "line 3: the host a is there twice"},
		"hosts, another line":       {"host a 6.1 x86_64\nbash: lspci: command not found\n", `line 2: "bash: lspci: command not found" is no line of os-release, of lspci -n or of /proc`},
		"hosts, a line after end":   {"host a 6.1 x86_64\nend\nID=debian\n", `line 3: "ID=debian" follows no line host`},
		"hosts, a line without end": {"host a 6.1 x86_64\nID=" + strings.Repeat("a", maxLine), "a line has more than 4096 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, err := ReadNodes(strings.NewReader(c.text))
			assert.ErrorIs(t, err, ErrFormat)
			assert.ErrorContains(t, err, c.want)
			assert.Equalf(t, 0, len(all), "nodes")
			if strings.ContainsAny(err.Error(), "\x1b\x00") {
				t.Errorf("the error has bytes of the input: %q", err)
			}
		})
	}
}

func series(n int, format string) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(format, i))
	}
	return strings.Join(all, ", ")
}

// TestUnusable: what a machine says of itself makes that machine unusable, and no other.
func TestUnusable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ kernel, image, want string }{
		"no kernel":               {"", "Debian GNU/Linux 12", "it reports no kernel"},
		"a kernel with a command": {"6.1 --push", "Debian GNU/Linux 12", `what it reports as its kernel is no release: "6.1 --push"`},
		"a kernel with a path":    {"../6.1", "Debian GNU/Linux 12", "is no release"},
		"a long kernel":           {"6" + strings.Repeat("1", 64), "Debian GNU/Linux 12", "is no release"},
		"a system with escapes":   {"6.1.0", "Debian\x1b[31m", "what it reports as its system is no such text"},
		"a long system":           {"6.1.0", strings.Repeat("a", 257), "what it reports as its system is no such text"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := fmt.Sprintf(`{"kind": "NodeList", "items": [{"metadata": {"name": "bad"}, "status": {"nodeInfo": {"kernelVersion": %s, "osImage": %s}}},
				{"metadata": {"name": "good"}, "status": {"nodeInfo": {"kernelVersion": "6.1.0-56-amd64", "osImage": "Debian GNU/Linux 12 (bookworm)"}}}]}`, quote(c.kernel), quote(c.image))
			all := require.Value(ReadNodes(strings.NewReader(text)))(t)
			assert.Containsf(t, all[0].Fault, c.want, "the fault")
			assert.Equalf(t, "", all[1].Fault, "the fault of the other")
		})
	}
}

// quote is a text in JSON.
func quote(text string) string { return strings.ReplaceAll(fmt.Sprintf("%q", text), `\x1b`, `\u001b`) }

// TestRead reads a list, a single node and what an old API server said, in pieces of one byte.
func TestRead(t *testing.T) {
	t.Parallel()
	const info = `"status": {"nodeInfo": {"architecture": "arm64", "kernelVersion": "6.1.85+", "osImage": "Debian GNU/Linux 12 (bookworm)"}}`
	for name, c := range map[string]struct {
		text string
		want Node
	}{
		"a list": {`{"apiVersion": "v1", "items": [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "labels": {"x/y": "z"}}, ` + info + `}], "kind": "List", "metadata": {"resourceVersion": ""}}`,
			Node{Name: "a", Labels: map[string]string{}, Arch: "arm64", Kernel: "6.1.85+", ID: "debian", VersionID: "12", OSImage: "Debian GNU/Linux 12 (bookworm)"}},
		"the API's own list": {`{"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [{"metadata": {"name": "a"}, ` + info + `}]}`,
			Node{Name: "a", Arch: "arm64", Kernel: "6.1.85+", ID: "debian", VersionID: "12", OSImage: "Debian GNU/Linux 12 (bookworm)"}},
		"a single node": {`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "labels": {"nvidia.com/gpu.present": "true"}}, "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}, ` + info + `}`,
			Node{Name: "a", Labels: map[string]string{"nvidia.com/gpu.present": "true"}, Taints: []Taint{{Key: "k", Effect: "NoSchedule"}}, Arch: "arm64", Kernel: "6.1.85+", ID: "debian", VersionID: "12",
				OSImage: "Debian GNU/Linux 12 (bookworm)", GPUs: GPUs{Presence: Present}}},
		"an old API server": {`{"kind": "NodeList", "items": [{"metadata": {"name": "a", "labels": {"beta.kubernetes.io/arch": "amd64"}}, "status": {"nodeInfo": {"kernelVersion": "4.4.0-210-generic", "osImage": "Ubuntu 16.04.7 LTS"}}}]}`,
			Node{Name: "a", Labels: map[string]string{"beta.kubernetes.io/arch": "amd64"}, Arch: "amd64", Kernel: "4.4.0-210-generic", ID: "ubuntu", VersionID: "16.04", OSImage: "Ubuntu 16.04.7 LTS"}},
		"labels win over the text": {`{"kind": "NodeList", "items": [{"metadata": {"name": "a", "labels": {"` + LabelOSID + `": "rocky", "` + LabelOSVersion + `": "9.4"}}, ` + info + `}]}`,
			Node{Name: "a", Labels: map[string]string{LabelOSID: "rocky", LabelOSVersion: "9.4"}, Arch: "arm64", Kernel: "6.1.85+", ID: "rocky", VersionID: "9.4", OSImage: "Debian GNU/Linux 12 (bookworm)", GPUs: GPUs{Presence: Absent}}},
		"no VERSION_ID": {`{"kind": "NodeList", "items": [{"metadata": {"name": "a", "labels": {"` + LabelOSID + `": "gardenlinux", "` + LabelOSVersion + `": "0"}}, "status": {"nodeInfo": {"kernelVersion": "6.12.40-cloud-amd64", "osImage": "Garden Linux 1877.14"}}}]}`,
			Node{Name: "a", Labels: map[string]string{LabelOSID: "gardenlinux", LabelOSVersion: "0"}, Kernel: "6.12.40-cloud-amd64", ID: "gardenlinux", VersionID: "1877.14", OSImage: "Garden Linux 1877.14", GPUs: GPUs{Presence: Absent}}},
		"announced GPUs": {`{"kind": "NodeList", "items": [{"metadata": {"name": "a"}, "status": {"capacity": {"nvidia.com/gpu": "8", "cpu": "4"}, "nodeInfo": {"kernelVersion": "6.1.85+"}}}]}`,
			Node{Name: "a", Kernel: "6.1.85+", GPUs: GPUs{Presence: Present}}},
		"announced parts of GPUs": {`{"kind": "NodeList", "items": [{"metadata": {"name": "a"}, "status": {"capacity": {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.5gb": "7"}, "nodeInfo": {"kernelVersion": "6.1.85+"}}}]}`,
			Node{Name: "a", Kernel: "6.1.85+", GPUs: GPUs{Presence: Present}}},
		"announced and shared": {`{"kind": "NodeList", "items": [{"metadata": {"name": "a"}, "status": {"capacity": {"nvidia.com/gpu.shared": 40}, "nodeInfo": {"kernelVersion": "6.1.85+"}}}]}`,
			Node{Name: "a", Kernel: "6.1.85+", GPUs: GPUs{Presence: Present}}},
		"nothing announced": {`{"kind": "NodeList", "items": [{"metadata": {"name": "a"}, "status": {"capacity": {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.5gb": null, "nvidia.com/pgpu": "1", "amd.com/gpu": "8"}, "nodeInfo": {"kernelVersion": "6.1.85+"}}}]}`,
			Node{Name: "a", Kernel: "6.1.85+"}},
		"DigitalOcean": {`{"kind": "NodeList", "items": [{"metadata": {"name": "a", "labels": {"doks.digitalocean.com/gpu-brand": "nvidia", "doks.digitalocean.com/gpu-model": "h100"}}, "status": {"nodeInfo": {"kernelVersion": "6.1.85+"}}}]}`,
			Node{Name: "a", Labels: map[string]string{"doks.digitalocean.com/gpu-brand": "nvidia", "doks.digitalocean.com/gpu-model": "h100"}, Kernel: "6.1.85+",
				GPUs: GPUs{Presence: Present, Label: "doks.digitalocean.com/gpu-model", Product: "H100"}}},
		"a host of OpenShift": {"host a 5.14.0-570.60.1.el9_6.x86_64 x86_64\nVARIANT_ID=coreos\nID=rhel\nVERSION_ID=9.6\nPRETTY_NAME=\"Red Hat Enterprise Linux 9.6 (Plow)\"\n01:00.0 0302: 10de:1eb8\nend\n",
			Node{Name: "a", Arch: "amd64", Kernel: "5.14.0-570.60.1.el9_6.x86_64", ID: "rhcos", VersionID: "9.6", OSImage: "Red Hat Enterprise Linux 9.6 (Plow)",
				GPUs: GPUs{Presence: Present, Devices: []uint16{0x1eb8}}}},
		"a host": {"host a 6.1.0-56-amd64 x86_64\r\n# comment\r\nID=debian\r\nVERSION_ID=\"12\"\r\n01:00.0 0302: 10de:2330 (rev a1)\n02:00.0 0300: 10de:1eb8\n03:00.0 0302: 10de:1eb8\n04:00.0 0680: 10de:22a3\n05:00.0 0302: 1002:740f\nend\n",
			Node{Name: "a", Arch: "amd64", Kernel: "6.1.0-56-amd64", ID: "debian", VersionID: "12", GPUs: GPUs{Presence: Present, Devices: []uint16{0x1eb8, 0x2330}, Switches: true}}},
		"a host that was cut off": {"host a 6.1.0-56-amd64 x86_64\nID=debian\n",
			Node{Name: "a", Arch: "x86_64", Kernel: "6.1.0-56-amd64", ID: "debian", GPUs: GPUs{Presence: Present}, Fault: "its answers were cut off: they do not end with the line end"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for how, r := range map[string]io.Reader{"at once": strings.NewReader(c.text), "byte by byte": iotest.OneByteReader(strings.NewReader(c.text))} {
				all := require.Value(ReadNodes(r))(t)
				assert.Samef(t, []Node{c.want}, all, "%s", how)
			}
		})
	}
}

// TestEncodings: PowerShell saves what kubectl prints with a byte order mark, and mostly in UTF-16.
func TestEncodings(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"kubeadm.json", "hosts.txt"} {
		text := string(require.Value(os.ReadFile(filepath.Join("testdata", name)))(t))
		want := require.Value(ReadNodes(strings.NewReader(text)))(t)
		marked := "\ufeff" + strings.ReplaceAll(text, "\n", "\r\n")
		var little, big []byte
		for _, unit := range utf16.Encode([]rune(marked)) {
			little = binary.LittleEndian.AppendUint16(little, unit)
			big = binary.BigEndian.AppendUint16(big, unit)
		}
		for encoding, data := range map[string][]byte{"UTF-8": []byte(marked), "UTF-16LE": little, "UTF-16BE": big} {
			got, err := ReadNodes(bytes.NewReader(data))
			assert.NoErrorf(t, err, "%s in %s", name, encoding)
			assert.Samef(t, want, got, "%s in %s", name, encoding)
		}
		cut, err := ReadNodes(bytes.NewReader(little[:len(little)/2]))
		if err == nil && cut[len(cut)-1].Fault == "" {
			t.Errorf("half of %s is read as a whole", name)
		}
	}
}

// TestPCILabels: deviceLabelFields of node feature discovery may name any fields.
func TestPCILabels(t *testing.T) {
	t.Parallel()
	for label, want := range map[string]string{
		"pci-10de.present": "gpu", "pci-0302_10de.present": "gpu", "pci-0300_10de.present": "gpu", "pci-0302_10de_1eb8.present": "1eb8",
		"pci-10de_1eb8.present": "1eb8", "pci-0302_10de_1eb8_10de_12a2.present": "1eb8",
		"pci-0680_10de.present": "", "pci-0680_10de_22a3.present": "", "pci-10de_22a3.present": "", "pci-0403_10de_10f8.present": "", "pci-15b3.present": "", "pci-0302_1002.present": "", "pci-0302.present": "",
		"pci-0302_10de_xyz.present": "", "pci-10de.sriov.capable": "", "pci-0200_15b3_10de.present": "", "usb-10de.present": "",
	} {
		device, gpu := pciDevice(nfd + label)
		got := ""
		if gpu {
			got = "gpu"
		}
		if device != 0 {
			got = fmt.Sprintf("%04x", device)
		}
		assert.Equalf(t, want, got, "%s", label)
	}
}

// TestReadErrors: an error of reading is no damaged list.
func TestReadErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken pipe")
	for _, text := range []string{"", `{"kind": "List", "items": [`, "host a 6.1 x86_64\n"} {
		_, err := ReadNodes(io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken)))
		assert.ErrorIs(t, err, broken)
		assert.Equalf(t, false, errors.Is(err, ErrFormat), "%q is a damaged list: %v", text, err)
	}
}

// FuzzRead: any input gives nodes that are usable, or an error.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"kubeadm.json", "gke.json", "hosts.txt"} {
		text := require.Value(os.ReadFile(filepath.Join("testdata", name)))(f)
		f.Add(string(text[:min(len(text), 6000)]))
	}
	f.Add(wrap(`"name": "a", "labels": {"nvidia.com/x": "y"}`))
	f.Fuzz(func(t *testing.T, text string) {
		all, err := ReadNodes(strings.NewReader(text))
		if err != nil {
			if !errors.Is(err, ErrFormat) || len(all) > 0 {
				t.Errorf("%d nodes, %v", len(all), err)
			}
			return
		}
		names := map[string]bool{}
		for _, n := range all {
			if names[n.Name] || !isWord(n.Name, 253) {
				t.Errorf("the name %q", n.Name)
			}
			names[n.Name] = true
			if n.Fault == "" && !releaseShape.MatchString(n.Kernel) {
				t.Errorf("the kernel %q", n.Kernel)
			}
			for key, value := range n.Labels {
				if !isPair(key, value) {
					t.Errorf("the label %q=%q", key, value)
				}
			}
		}
	})
}
