package images

import (
	"archive/tar"
	"fmt"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/verify"
)

// TestVerifyRules: what cannot work does not pass, in images of others. Each case names
// the rule that has to find it and a part of what it says; "" finds nothing.
func TestVerifyRules(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	good := undescribed(t, r.build(t, pair("debian12", newDriver), recipe.Options{}))
	const lib, v = libDir + "/", newDriver
	cuda := soFile("amd64", "libcuda.so.1", "libc.so.6")
	put := func(name, body string, mode int64) []repotest.File {
		return []repotest.File{{Name: name, Body: body, Mode: mode}}
	}
	link := func(name, target string) []repotest.File { return []repotest.File{{Name: name, Link: target}} }
	kernel := "usr/src/nvidia-" + v + "/kernel/"
	for what, c := range map[string]struct {
		files      []repotest.File
		rule, says string
		config     func(*v1.Config)
	}{
		"libcuda empty":        {files: put(lib+"libcuda.so."+v, "", 0o755), rule: "elf", says: "not an ELF file"},
		"libcuda text":         {files: put(lib+"libcuda.so."+v, "this is no library, but a text\n", 0o755), rule: "elf", says: "not an ELF file"},
		"libcuda 100 bytes":    {files: put(lib+"libcuda.so."+v, cuda[:100], 0o755), rule: "elf", says: "cut off"},
		"libcuda half":         {files: put(lib+"libcuda.so."+v, cuda[:len(cuda)/2], 0o755), rule: "elf", says: "cut off"},
		"libcuda mode 0000":    {files: []repotest.File{{Name: lib + "libcuda.so." + v, Body: cuda, Mode: 0o4}}, rule: "permissions", says: "has mode 0004"},
		"libcuda is another":   {files: put(lib+"libcuda.so."+v, soFile("amd64", "libnvidia-ml.so.1", "libc.so.6"), 0o755), rule: "soname", says: `has the soname "libnvidia-ml.so.1", which is not that of libcuda`},
		"libcuda no soname":    {files: put(lib+"libcuda.so."+v, soFile("amd64", "", "libc.so.6"), 0o755), rule: "soname", says: `has the soname ""`},
		"libcuda leads away":   {files: link(lib+"libcuda.so.1", "libnvidia-ml.so."+v), rule: "soname", says: "leads to " + lib + "libnvidia-ml.so." + v},
		"libnvidia-ml zeros":   {files: put(lib+"libnvidia-ml.so."+v, strings.Repeat("\x00", 3000), 0o755), rule: "elf", says: "begins with 00"},
		"nvidia-smi empty":     {files: put("usr/bin/nvidia-smi", "", 0o755), rule: "programs", says: "is neither a program nor a script"},
		"nvidia-smi a script":  {files: put("usr/bin/nvidia-smi", "#!/bin/sh\n", 0o755), rule: "programs", says: "is no program"},
		"nvidia-modprobe":      {files: put("usr/bin/nvidia-modprobe", string(imagetest.ELF{Program: true}.Bytes()), 0o755), rule: "permissions", says: "is not setuid root"},
		"library 0777":         {files: put(lib+"libcuda.so."+v, cuda, 0o777), rule: "permissions", says: "others than root can change it"},
		"other owner":          {files: []repotest.File{{Name: lib + "libcuda.so." + v, Body: cuda, Mode: 0o755, UID: 1000}}, rule: "permissions", says: "belongs to 1000:0"},
		"compat, not searched": {files: put("usr/local/cuda-12.4/compat/libcuda.so.550.54.14", cuda, 0o755)},
		"compat, searched": {files: append(put("usr/local/cuda-12.4/compat/libcuda.so.550.54.14", cuda, 0o755),
			repotest.File{Name: "etc/ld.so.conf", Body: "include /etc/ld.so.conf.d/*.conf\n"}, repotest.File{Name: "etc/ld.so.conf.d/cuda.conf", Body: "/usr/local/cuda-12.4/compat # CUDA\n"}),
			rule: "driver-version", says: "is of driver 550.54.14"},
		"loader's files in a circle": {files: []repotest.File{
			{Name: "etc/ld.so.conf", Body: strings.Repeat("include ld.so.conf\ninclude a*.conf\n", 1000)},
			{Name: "etc/a1.conf", Body: strings.Repeat("include a*.conf\n", 1000)}, {Name: "etc/a2.conf", Body: strings.Repeat("include a*.conf\n", 1000)}}},
		"sets of modules a file": {files: put(recipe.ModulesDir, "x", 0o644)},
		"thousands of drivers":   {files: manyDrivers(lib+"libcuda.so.", cuda), rule: "driver-version", says: "exactly one version"}, // in seconds
		"too many names":         {files: put(lib+"libcuda.so."+v, cuda+manyNames(), 0o755), rule: "loaded-by-name", says: "more than 1000 libraries"},
		"libOpenCL unlinked":     {files: put(lib+"libOpenCL.so.1.0.0", soFile("amd64", "libOpenCL.so.1"), 0o644), rule: "soname", says: "has its soname libOpenCL.so.1: add the link"},
		"nvvm by name":           {files: put(lib+"libcuda.so."+v, cuda+"\x00libnvidia-nvvm.so.4\x00", 0o755), rule: "loaded-by-name", says: "loads libnvidia-nvvm.so.4 when it needs it, and the image has no libnvidia-nvvm"},
		"nvvm, no version":       {files: put(lib+"libcuda.so."+v, cuda+"\x00libnvidia-nvvm.so\x00", 0o755), rule: "loaded-by-name", says: "loads libnvidia-nvvm.so when"},
		"JIT by name":            {files: put(lib+"libcuda.so."+v, cuda+"\x00libnvidia-ptxjitcompiler.so.1\x00libnvidia-ml.so.1\x00", 0o755)},
		"optional by name":       {files: put(lib+"libcuda.so."+v, cuda+"\x00libnvidia-pkcs11.so."+v+"\x00", 0o755)},
		"Kbuild":                 {files: gone(kernel + "Kbuild"), rule: "kernel-sources", says: "Kbuild: is not there"},
		"Kbuild empty":           {files: put(kernel+"Kbuild", "", 0o644), rule: "kernel-sources", says: "Kbuild: is empty"},
		"gcc":                    {files: gone("usr/bin/gcc-12", "usr/bin/x86_64-linux-gnu-gcc-12", "usr/bin/gcc", "usr/bin/cc"), rule: "toolchain", says: "no C compiler is on PATH"},
		"gcc empty":              {files: put("usr/bin/x86_64-linux-gnu-gcc-12", "", 0o755), rule: "toolchain", says: "no C compiler is on PATH"},
		"make":                   {files: gone("usr/bin/make"), rule: "toolchain", says: "make is not on PATH"},
		"sh of another":          {files: put("usr/bin/sh", string(imagetest.ELF{Program: true, Arch: "arm64"}.Bytes()), 0o755), rule: "programs", says: "is for EM_AARCH64"},
		"licence gone": {files: append(gone("licenses/LICENSE"), put("licenses/nvidia-modprobe.txt", "NVIDIA's license of nvidia-modprobe\n", 0o644)...),
			rule: "licence", says: "NVIDIA's licence is not in /licenses"},
		"licence empty":       {files: put("licenses/LICENSE", "", 0o644), rule: "licence", says: "is not NVIDIA's licence"},
		"licence of another":  {files: put("licenses/LICENSE", "GPL, a license\n", 0o644), rule: "licence", says: "is not NVIDIA's licence"},
		"licence unreadable":  {files: put("licenses/LICENSE", "NVIDIA's license\n", 0o600), rule: "licence", says: "which all users can read"},
		"firmware empty":      {files: put(recipe.FirmwareDir+"/nvidia/"+v+"/gsp_ga10x.bin", "", 0o644), rule: "firmware", says: "is empty"},
		"module of another":   {files: put("usr/lib/modules/6.1.0-56-amd64/updates/nvidia.ko", string(imagetest.Module("nvidia", v, "6.1.0-9-amd64")), 0o644), rule: "modules", says: `is for kernel "6.1.0-9-amd64" (vermagic), its folder for 6.1.0-56-amd64`},
		"module damaged":      {files: put("usr/lib/modules/6.1.0-56-amd64/updates/nvidia.ko", "text", 0o644), rule: "modules", says: "read the module /usr/lib/modules/6.1.0-56-amd64/updates/nvidia.ko"},
		"user":                {config: func(c *v1.Config) { c.User = "nobody" }, rule: "start", says: "only root loads modules"},
		"group":               {config: func(c *v1.Config) { c.User = "0:1000" }, rule: "start", says: "only root loads modules"},
		"root":                {config: func(c *v1.Config) { c.User = "root:0" }},
		"volume":              {config: func(c *v1.Config) { c.Volumes = map[string]struct{}{"/usr/lib": {}} }, rule: "start", says: "hides /" + libDir},
		"volume below":        {config: func(c *v1.Config) { c.Volumes = map[string]struct{}{"/etc/modprobe.d/": {}} }, rule: "start", says: "hides /etc"},
		"volume elsewhere":    {config: func(c *v1.Config) { c.Volumes = map[string]struct{}{"/run/nvidia": {}} }},
		"StopSignal":          {config: func(c *v1.Config) { c.StopSignal = "SIGKILL" }, rule: "start", says: "unloaded at SIGTERM"},
		"DRIVER_BRANCH":       {config: func(c *v1.Config) { c.Env[0] = "DRIVER_BRANCH=470" }, rule: "environment", says: "DRIVER_BRANCH is 470, the libraries are of 535"},
		"library a device":    {files: []repotest.File{{Name: lib + "libcuda.so." + v, Type: tar.TypeChar}}, rule: "relative-links", says: "libcuda.so.1: is a link to"},
		"licence daemon":      {files: put(recipe.Gridd, string(imagetest.ELF{Program: true, Needed: []string{"libgrid.so.1"}}.Bytes()), 0o755), rule: "dependencies", says: "needs libgrid.so.1, which the image has not"},
		"no licence daemon":   {config: func(c *v1.Config) { c.Labels[recipe.LabelVGPU] = "aws" }, rule: "vgpu", says: "gets no licence without it"},
		"folder of libraries": {files: []repotest.File{{Name: libDir + "/", Mode: 0o700}}, rule: "permissions", says: "not all users can use it"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			findings := require.Value(examiner(r.b).Verify(t.Context(), what, changed(t, good, c.files, c.config), verify.Options{}))(t)
			found := c.rule == "" && verify.Unfit(findings) == nil
			for _, f := range findings {
				found = found || c.rule != "" && f.Severity == verify.Error && f.Rule == c.rule && strings.Contains(f.String(), c.says)
			}
			assert.Equalf(t, true, found, "want an error of %q that says %q, got %v", c.rule, c.says, findings)
		})
	}
}

// manyNames are more names of libraries than a library has.
func manyNames() string {
	var b strings.Builder
	for n := range 2000 {
		fmt.Fprintf(&b, "\x00libcuda.so.%d\x00", n)
	}
	return b.String()
}

// manyDrivers are libraries of as many drivers, which links make out of one.
func manyDrivers(name, body string) (all []repotest.File) {
	for n := range 3000 {
		all = append(all, repotest.File{Name: fmt.Sprintf("%s535.1.%d", name, n+1), Body: body, Mode: 0o755})
	}
	return all
}
