package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// results are the answers by question.
func results(t *testing.T, m machine) map[string]answer {
	t.Helper()
	answers, err := ask(t.Context(), m)
	require.NoError(t, err)
	all := map[string]answer{}
	for _, a := range answers {
		all[a.Question] = a
	}
	return all
}

// The real driver-probe and everything behind it agree with nvidia-smi about a machine without faults.
func TestSame(t *testing.T) {
	t.Parallel()
	m, _, devices := standIn(t)
	all := results(t, m)
	for _, q := range questions {
		want := "same"
		if q.name == "GPUs that the driver has taken, device files" && !devices {
			want = "DIFFERENT" // not root: there is no device file
		}
		if a := all[q.name]; a.result() != want || a.Answer == "" || a.Compared == "" {
			t.Errorf("%s: %+v", q.name, a)
		}
	}
	for question, part := range map[string]string{
		"version of the loaded driver": version + ", open",
		"driver-probe, through NVML":   "driver " + version + "; NVIDIA H200, 1129 of 143771 MiB",
		"GPUs on the PCI bus":          "1 on the bus",
	} {
		assert.Equal(t, part, all[question].Answer)
	}
}

// What differs is said, and the other questions are asked all the same.
func TestDifferent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		spoil    func(m machine, data string) error
		question string
		result   string
		part     string // of the comparison
	}{
		{"another driver is loaded", func(m machine, _ string) error {
			return os.WriteFile(m.path("sys/module/nvidia/version"), []byte("570.1\n"), 0o644)
		}, "version of the loaded driver", "DIFFERENT", `in /sys is "570.1"`},
		{"nvidia-smi knows another GPU", func(_ machine, data string) error {
			return change(data+"/smi.xml", "GPU-1111", "GPU-9999")
		}, "driver-probe, through NVML", "DIFFERENT", "GPU-99991111-2222-3333-4444-555555555555 is missing"},
		{"another name", func(_ machine, data string) error { return change(data+"/query.csv", "H200", "H100") },
			"driver-probe's fallback, nvidia-smi", "DIFFERENT", `"NVIDIA H100", want "NVIDIA H200"`},
		{"more memory in use", func(_ machine, data string) error { return change(data+"/smi.xml", "573 MiB", "99999 MiB") },
			"driver-probe, through NVML", "DIFFERENT", "nvidia-smi says 99999 MiB"},
		{"MIG: no utilisation in nvidia-smi", func(_ machine, data string) error { return change(data+"/smi.xml", "41 %", "N/A") },
			"driver-probe, through NVML", "DIFFERENT", `nvidia-smi has "143771 MiB", "N/A"`},
		{"another total", func(_ machine, data string) error { return change(data+"/smi.xml", "143771 MiB", "81559 MiB") },
			"driver-probe, through NVML", "DIFFERENT", "bytes of memory, nvidia-smi says 81559 MiB"},
		{"another PCI id", func(m machine, _ string) error {
			return os.WriteFile(m.path("sys/bus/pci/devices/0000:05:00.0/device"), []byte("0x2330\n"), 0o644)
		}, "GPUs on the PCI bus", "DIFFERENT", `"233010DE bound to nvidia", want "233510DE bound`},
		{"bound to another driver", func(m machine, _ string) error {
			link := m.path("sys/bus/pci/devices/0000:05:00.0/driver")
			return errors.Join(os.Remove(link), os.Symlink("../../drivers/vfio-pci", link))
		}, "GPUs on the PCI bus", "DIFFERENT", `bound to vfio-pci", want`},
		{"another minor number", func(_ machine, data string) error {
			return change(data+"/smi.xml", "<minor_number>0", "<minor_number>3")
		}, "GPUs that the driver has taken, device files", "DIFFERENT", `minor 0, file 195:0 <nil>", want "minor 3`},
		{"no bus, as in a sandbox", func(m machine, _ string) error { return os.RemoveAll(m.path("sys/bus")) },
			"preflight on the real bus", "not asked", "no PCI device"},
		{"no driver-probe", func(m machine, _ string) error { return os.Remove(filepath.Join(m.programs, "driver-probe")) },
			"driver-probe, through NVML", "not asked", "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m, data, _ := standIn(t)
			require.NoError(t, c.spoil(m, data))
			all := results(t, m)
			if a := all[c.question]; a.result() != c.result || !strings.Contains(strings.Join(a.Differences, "; ")+a.NotAsked, c.part) {
				t.Errorf("%+v, want %s with %q", a, c.result, c.part)
			}
			assert.Equal(t, len(questions), len(all))
		})
	}
}

func change(path, from, to string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !bytes.Contains(text, []byte(from)) {
		return errors.New(path + " lacks " + from)
	}
	return os.WriteFile(path, bytes.ReplaceAll(text, []byte(from), []byte(to)), 0o644)
}

// Without a driver, or with one that has no GPU, there is one error that says so.
func TestNoGPU(t *testing.T) {
	t.Parallel()
	_, err := ask(t.Context(), machine{root: t.TempDir()})
	assert.ErrorIs(t, err, errNoGPU)
	for _, code := range []string{"6", "9"} {
		m, data, _ := standIn(t)
		testfile.Write(t, data+"/code", code)
		_, err = ask(t.Context(), m)
		assert.ErrorIs(t, err, errNoGPU)
	}
	m, data, _ := standIn(t)
	require.NoError(t, change(data+"/smi.xml", "<gpu id", "<none id"))
	require.NoError(t, change(data+"/smi.xml", "</gpu>", "</none>"))
	_, err = ask(t.Context(), m)
	assert.ErrorIs(t, err, errNoGPU)
}

// An nvidia-smi that is missing, fails or hangs is an error of its own: it is no machine without GPU.
func TestNoReference(t *testing.T) {
	t.Parallel()
	m, data, _ := standIn(t)
	testfile.Write(t, data+"/code", "15")
	_, err := ask(t.Context(), m)
	assert.ErrorContainsf(t, err, "exit code 15", "a GPU that is lost")
	require.NoError(t, os.Rename(data+"/code", data+"/hang"))
	m.timeout = 100 * time.Millisecond
	_, err = ask(t.Context(), m)
	assert.ErrorContainsf(t, err, "did not answer within 1", "it hangs")
	require.NoError(t, os.Remove(m.path("usr/local/nvidia/bin/nvidia-smi")))
	_, err = ask(t.Context(), m)
	assert.Equalf(t, false, errors.Is(err, errNoGPU), "without nvidia-smi: %v", err)
	assert.ErrorContainsf(t, err, "nothing to compare with", "without nvidia-smi")
}

// A cell is one line.
func TestTable(t *testing.T) {
	t.Parallel()
	text, different := table([]answer{{Question: "a", Answer: "1|2", Compared: "x\ny"}, {Question: "b", NotAsked: "why"}})
	assert.Equal(t, false, different)
	assert.Contains(t, text, "\n| same | a | 1\\|2 | x y |\n| not asked | b |  | why |\n")
}

// The program finds driver-probe beside itself; what it ends with is an interface.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	built, err := programs()
	require.NoError(t, err)
	m, data, _ := standIn(t)
	require.NoError(t, change(data+"/query.csv", "H200", "H100"))
	for _, c := range []struct {
		args []string
		code int
		part string
	}{
		{[]string{"-root", m.root}, 1, "| DIFFERENT | driver-probe's fallback, nvidia-smi |"},
		{[]string{"-root", t.TempDir()}, 3, "has no NVIDIA GPU with a loaded driver"},
		{[]string{"-root", t.TempDir(), "more"}, 2, `takes no arguments, but got ["more"]`},
		{[]string{"-reset"}, 2, "flag provided but not defined"},
	} {
		cmd := exec.Command(filepath.Join(built, "gpu-check"), c.args...)
		out, _ := cmd.CombinedOutput() //nolint:errcheck // the exit code is looked at
		assert.Equalf(t, c.code, cmd.ProcessState.ExitCode(), "%q: %s", c.args, out)
		assert.Contains(t, string(out), c.part)
	}
}
