package kbuild

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// environment returns the complete environment of the programs. It fixes names, times and paths
// that would get into the modules. prefixMap is a further folder of sources and the name that it
// appears under, or "": "/work/companions/gdrdrv=/usr/src/gdrdrv-2.5.2".
func (c *compile) environment(prefixMap string) []string {
	env := []string{
		"PATH=" + c.searchPath(),
		"LC_ALL=C", // output checks search messages for English words
		"HOME=" + filepath.Join(c.dir, scratchTemp),
		"TMPDIR=" + filepath.Join(c.dir, scratchTemp),
		"SOURCE_DATE_EPOCH=0",
		"KBUILD_BUILD_TIMESTAMP=Thu Jan  1 00:00:00 UTC 1970",
		"KBUILD_BUILD_USER=driver",
		"KBUILD_BUILD_HOST=driver",
	}
	if flags := c.prefixMaps(c.dir); flags != "" {
		if prefixMap != "" {
			flags += " -ffile-prefix-map=" + prefixMap
		}
		env = append(env, "KCFLAGS="+flags)
	}
	return env
}

// prefixMaps returns compiler flags that keep our paths out of the modules (__FILE__ in assertions,
// and the debug information that the build id is computed from): the scratch folder appears as a
// folder that names the driver, the headers by their path in their own root.
func (j Job) prefixMaps(dir string) string {
	v, ok := parseVersion(j.Compiler.Version)
	if !ok || v.family == "gcc" && v.field(0) < 8 || v.family == "clang" && v.field(0) < 10 {
		return "" // the compiler does not know the flags: the paths are those of Job.Work
	}
	flags := "-ffile-prefix-map=" + filepath.Join(dir, scratchSource) + "=/usr/src/nvidia-" + j.Driver
	if root := strings.TrimSuffix(j.Headers.RootDir, "/"); root != "" {
		// Only for debug information: kbuild itself maps __FILE__ of its own tree to relative
		// paths.
		flags += " -fdebug-prefix-map=" + root + "="
	}
	return flags
}

// arguments returns those of make. They switch off the Makefile's own check of the compiler, which
// knows fewer spellings: FindCompiler has compared the compiler with the kernel's and set Mismatch
// for a warning.
func (c *compile) arguments() []string {
	args := []string{
		"-C", filepath.Join(c.dir, scratchSource), "-j" + strconv.Itoa(max(c.Jobs, 1)), "modules",
		"KERNEL_UNAME=" + c.Headers.Release,
		// Both, always: with SYSSRC alone, NVIDIA's tests do not find the generated headers of a
		// split tree.
		"SYSSRC=" + c.Headers.Source,
		"SYSOUT=" + c.Headers.Build,
		"CC=" + c.Compiler.Path,
		"IGNORE_CC_MISMATCH=1",
		"NV_KERNEL_MODULES=" + strings.Join(c.names, " "),
	}
	return slices.Concat(args, c.Variables, c.toolArguments())
}

// toolArguments returns what make needs besides CC: LLVM's programs if the compiler is clang, and
// the prefix of the other programs if they have one and the image has no plain names
// ("x86_64-cros-linux-gnu-ld").
func (j Job) toolArguments() []string {
	if v, ok := parseVersion(j.Compiler.Version); ok && v.family == "clang" {
		return []string{"LLVM=1", "LD=ld.lld"}
	}
	if prefix := toolPrefix(j.Compiler.Path, j.searchPath()); prefix != "" {
		return []string{"CROSS_COMPILE=" + prefix, "HOSTCC=" + j.Compiler.Path}
	}
	return nil
}

func (j Job) searchPath() string { return searchPath(filepath.Dir(j.Compiler.Path)) }
