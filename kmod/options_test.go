package kmod

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

func TestReadOptions(t *testing.T) {
	t.Parallel()
	dir := testfile.Tree(t, t.TempDir(), map[string]string{
		"etc/20-gpu.conf": "# a comment \\\noptions nvidia NVreg_Comment=1\n" + // the comment continues in the second line
			"  options nvidia NVreg_EnableMSI=0 \\\n\tNVreg_UsePageAttributeTable=1\r\n" +
			"options nvidia-uvm uvm_disable_hmm=1\nblacklist nouveau\nalias x y\ninstall nvidia /bin/false\noptions\noptions snd \"unclosed\n",
		"etc/30-gpu.conf":     "options nvidia NVreg_EnableMSI=1 NVreg_RegistryDwords=\"a=1; b=2\" \"NVreg_Other=x y\"\n",
		"etc/40-hidden.conf":  "-> /dev/null",
		"etc/50-nothing.conf": "-> ../nowhere",
		"etc/readme":          "options nvidia NVreg_No=1\n",
		"usr/10-first.conf":   "options nvidia NVreg_EnableMSI=7 NVreg_First=1",
		"usr/20-gpu.conf":     "options nvidia NVreg_Masked=1",
		"usr/40-hidden.conf":  "options nvidia NVreg_Hidden=1",
		"drivers/nvidia.conf": "NVreg_First=2\n# comment\n\nNVreg-EnableMSI=3 NVreg_Empty=\"\"\n", "drivers/nvidia-uvm.conf": "-> ..data/uvm",
		"drivers/..data/uvm": "uvm_debug_prints=1\n", "drivers/gridd.conf": "ServerAddress = \"", "drivers/nvidia-drm.conf": "",
	})
	got := require.Value(ReadOptions([]string{dir + "/etc", dir + "/none", dir + "/usr"}, dir+"/drivers"))(t)
	want := Options{
		"nvidia": {"NVreg_UsePageAttributeTable=1", "NVreg_RegistryDwords=a=1; b=2", "NVreg_Other=x y", "NVreg_First=2",
			"NVreg-EnableMSI=3", "NVreg_Empty="},
		"nvidia_uvm": {"uvm_disable_hmm=1", "uvm_debug_prints=1"},
	}
	assert.Samef(t, want, got, "ReadOptions (-want +got)")
	assert.Samef(t, want["nvidia_uvm"], got.For("nvidia-uvm"), "For(nvidia-uvm) (-want +got)")
	assert.Equalf(t, `NVreg_UsePageAttributeTable=1 NVreg_RegistryDwords="a=1; b=2" `+
		`NVreg_Other="x y" NVreg_First=2 NVreg-EnableMSI=3 NVreg_Empty=`, require.Value(joinParams(got.For("nvidia")))(t), "joinParams")
	if o, err := ReadOptions(nil, dir+"/none"); err != nil || len(o) != 0 || o.For("nvidia") != nil {
		t.Errorf("ReadOptions of nothing = %v, %v; want none", o, err)
	}
}

func TestReadOptionsErrors(t *testing.T) {
	t.Parallel()
	for text, where := range map[string]string{
		"options nvidia a=1\n\noptions nvidia \\\n \"unclosed": "x.conf:3: ",
		"options nvidia =1":                                 "x.conf:1: ",
		"options nvidia a=b\"c\"":                           "x.conf:1: ",
		"options nvidia a=\x01":                             "x.conf:1: ",
		"options nvidia a;b=1":                              "x.conf:1: ",
		"options nvidia a=" + strings.Repeat("x", maxParam): "x.conf:1: ",
	} {
		dir := testfile.Tree(t, t.TempDir(), map[string]string{"x.conf": text})
		if _, err := ReadOptions([]string{dir}, ""); err == nil || !strings.Contains(err.Error(), where) {
			t.Errorf("ReadOptions of %.40q: %v; want an error at %s", text, err, where)
		}
	}
	dir := testfile.Tree(t, t.TempDir(), map[string]string{"nvidia.conf/": "", "big/nvidia.conf": strings.Repeat("#\n", maxConfig)})
	for _, d := range []string{dir, dir + "/big"} {
		if _, err := ReadOptions(nil, d); err == nil || !strings.Contains(err.Error(), "nvidia.conf") {
			t.Errorf("ReadOptions of %s: %v; want an error that names the file", d, err)
		}
	}
}

func TestJoinParamsRefuses(t *testing.T) {
	t.Parallel()
	for _, p := range []string{"", "=x", `a="b"`, "a b=c", "a=b\nc=d", "a=\x00"} {
		if text, err := joinParams([]string{p}); err == nil {
			t.Errorf("joinParams(%q) = %q; want an error", p, text)
		}
	}
}

// Joining parameters and splitting the text again returns the same parameters.
func FuzzOptions(f *testing.F) {
	for _, s := range []string{"options nvidia a=1 b", "options nvidia-uvm \"a=b c\"\\\n d=\"e f\"", "#x\\\noptions nvidia a=", "a=\u00a0", "options nvidia \\"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		dir := t.TempDir()
		for _, name := range []string{"nvidia.conf", "nvidia-uvm.conf"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		}
		for _, dirs := range [][2]string{{dir, ""}, {"", dir}} {
			o, err := ReadOptions([]string{dirs[0]}, dirs[1])
			if err != nil {
				continue
			}
			for module, params := range o {
				joined, err := joinParams(params)
				require.NoErrorf(t, err, "%s: joinParams(%q)", module, params)
				again, err := splitParams(joined)
				if err != nil || !slices.Equal(again, params) {
					t.Errorf("%s: %q joined is %q and read again %q, %v", module, params, joined, again, err)
				}
			}
		}
	})
}

// A default comes first, and only if nothing else gives the parameter.
func TestDefault(t *testing.T) {
	t.Parallel()
	o := Options{"nvidia": {"NVreg_A=1", "NVreg_B=2"}}
	o.Default("nvidia", "NVreg_B=3", "NVreg_C=4")
	o.Default("nvidia-uvm", "uvm_x=1")
	o.Default("nvidia-drm")
	assert.Same(t, Options{"nvidia": {"NVreg_C=4", "NVreg_A=1", "NVreg_B=2"}, "nvidia_uvm": {"uvm_x=1"}}, o)
}
