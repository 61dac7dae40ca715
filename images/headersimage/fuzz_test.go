package headersimage

import (
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// FuzzRead: whatever the files of an image say, a kernel that is found has a release that may become part of
// a command, and complete headers.
func FuzzRead(f *testing.F) {
	f.Add(`{"KERNEL_VERSION": "5.14.0-1.el9.x86_64"}`, "#define UTS_RELEASE \"5.14.0-1.el9.x86_64\"\n", "CONFIG_X86_64=y\nCONFIG_CC_VERSION_TEXT=\"gcc 11\"\n", "5.14.0\n", "opt/tree")
	f.Add("{", "#define UTS_RELEASE \"../x\"\n", "CONFIG_ARM64=y\n", "", "../../usr/src")
	f.Fuzz(func(t *testing.T, own, uts, config, version, target string) {
		spool := require.Value(rootfs.NewSpool(t.TempDir()))(t) // which bounds the files of one image
		t.Cleanup(func() { _ = spool.Close() })
		tree := rootfs.New(spool, nil)
		add := func(name, text string) { require.NoError(t, tree.AddBytes(name, 0o644, []byte(text))) }
		add(releaseFile, own)
		for name, text := range map[string]string{utsRelease: uts, autoConf: config, kernelRelease: version, "include/generated/autoconf.h": "", "Module.symvers": "", "scripts/mod/modpost": ""} {
			add("opt/tree/"+name, text)
		}
		if tree.AddLink("lib/modules/5.14.0-1.el9.x86_64/build", target) != nil {
			t.Skip("no link has this target")
		}
		found, err := read(tree, "amd64")
		if err != nil {
			return
		}
		for _, k := range found.Kernels {
			if err := recipe.CheckRelease(k.Release); err != nil || k.Headers != "/opt/tree" {
				t.Errorf("%+v: %v", k, err)
			}
		}
	})
}
