package report

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

func TestLabels(t *testing.T) {
	t.Parallel()
	const p = "nvidia.com/driver."
	for name, test := range map[string]struct {
		version, flavour, cuda string
		gpus                   []labelledGPU
		others                 int
		want                   map[string]string
	}{
		"one model": {"535.261.03", "open", "12.2", []labelledGPU{{"Tesla T4", true}, {"Tesla T4", false}}, 1, map[string]string{
			p + "version.full": "535.261.03", p + "version.major": "535", p + "version.minor": "261", p + "version.revision": "03",
			p + "cuda.major": "12", p + "cuda.minor": "2", p + "flavour": "open", p + "gpu.model": "Tesla-T4", p + "gpu.count": "2", p + "gpu.working": "1", p + "gpu.lent": "1",
		}},
		"mixed, short version": {"418.87", "proprietary", "10.1", []labelledGPU{{"NVIDIA A100-SXM4-80GB (MIG)", true}, {"10de:1eb8", true}, {"10de:1eb8", true}, {"\x1b", true}}, 0, map[string]string{
			p + "version.full": "418.87", p + "version.major": "418", p + "version.minor": "87",
			p + "cuda.major": "10", p + "cuda.minor": "1", p + "flavour": "proprietary", p + "gpu.model": "mixed", p + "gpu.count": "4", p + "gpu.working": "4",
			p + "gpu.count.NVIDIA-A100-SXM4-80GB-MIG": "1", p + "gpu.count.10de-1eb8": "2",
		}},
		"nothing known of GPUs": {"470.256.02", "proprietary", "", nil, 0, map[string]string{
			p + "version.full": "470.256.02", p + "version.major": "470", p + "version.minor": "256", p + "version.revision": "02", p + "flavour": "proprietary",
		}},
		"all lent": {"535", "open", "12", nil, 2, map[string]string{
			p + "version.full": "535", p + "version.major": "535", p + "flavour": "open", p + "gpu.count": "0", p + "gpu.working": "0", p + "gpu.lent": "2",
		}},
		"hostile": {"../../x\n.y", "a=b", "../12.8/..", nil, 0, map[string]string{
			p + "version.full": "x-.y", p + "version.revision": "x-.y", p + "flavour": "a-b", p + "cuda.minor": "12.8",
		}},
	} {
		assert.Samef(t, test.want, labelsOf(test.version, test.flavour, test.cuda, test.gpus, test.others), "%s (-want +got)", name)
	}
}

// The rules of Kubernetes.
var (
	validValue = regexp.MustCompile(`^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`)
	validName  = regexp.MustCompile(`^nvidia\.com/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
)

func FuzzLabels(f *testing.F) {
	f.Add("535.261.03", "Tesla T4", "NVIDIA GeForce RTX 4090 Laptop labelledGPU with a name that is far too long for a label of Kubernetes")
	f.Add("..", "-_.", "ü")
	f.Fuzz(func(t *testing.T, version, a, b string) {
		for name, value := range labelsOf(version, b, a, []labelledGPU{{Model: a}, {Model: b}}, 1) {
			if !validName.MatchString(name) || !validValue.MatchString(value) || value == "" {
				t.Errorf("%q=%q", name, value)
			}
		}
	})
}

func TestWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, labelsFile)
	must := func(err error) {
		t.Helper()
		assert.NoError(t, err)
	}
	must(writeLabels(dir, map[string]string{"b": "2", "a": "1"}))
	text, err := os.ReadFile(path)
	if _, labels, _ := strings.Cut(string(text), "\n"); err != nil || labels != "a=1\nb=2\n" {
		t.Errorf("%q, %v", text, err)
	}
	first, err := os.Stat(path)
	must(err)
	must(writeLabels(dir, map[string]string{"b": "2", "a": "1"}))
	if again, err := os.Stat(path); err != nil || !os.SameFile(first, again) || first.Mode().Perm() != 0o644 {
		t.Errorf("the same is written again: %v", err)
	}
	must(writeLabels(dir, map[string]string{"a": "3"}))
	must(os.WriteFile(filepath.Join(dir, ".tmp-"+labelsFile+"1"), nil, 0o600))
	must(removeLabels(dir))
	must(removeLabels(dir))
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	assert.ErrorContainsf(t, writeLabels("/proc/nowhere", nil), "mounted", "no folder")
	must(os.Mkdir(path, 0o700))
	must(os.WriteFile(filepath.Join(path, "x"), nil, 0o600))
	if writeLabels(dir, nil) == nil || removeLabels(dir) == nil {
		t.Error("a folder in the way: no error")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("unfinished: %v, %v", left, err)
	}
}

func TestModel(t *testing.T) {
	t.Parallel()
	proc := t.TempDir()
	put := func(address, text string) {
		t.Helper()
		dir := filepath.Join(proc, "driver/nvidia/gpus", address)
		require.NoError(t, os.MkdirAll(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "information"), []byte(text), 0o600))
	}
	put("0000:05:00.0", "Model: \t\t Tesla T4\nIRQ:   \t\t 11\n")
	put("0000:06:00.0", "Model: \t\t Unknown\n")
	put("0000:07:00.0", "IRQ: 11\n")
	for address, want := range map[string]string{
		"0000:05:00.0": "Tesla T4", "0000:06:00.0": "10de:1eb8", "0000:07:00.0": "10de:1eb8", "0000:08:00.0": "10de:1eb8", "../../../x": "10de:1eb8",
	} {
		assert.Equalf(t, want, gpuModel("", proc, address, "10de:1eb8"), "%s", address)
	}
	assert.Equal(t, "NVIDIA A2", gpuModel("NVIDIA A2", proc, "0000:05:00.0", "x"))
}

func FuzzModel(f *testing.F) {
	f.Add("Model: \t\t Tesla T4\nIRQ:   \t\t 11\n")
	f.Fuzz(func(t *testing.T, text string) {
		if got := parseModel(text); strings.Contains(got, "\n") || got != "" && labelValue(got) == "" {
			t.Errorf("%q", got)
		}
	})
}
