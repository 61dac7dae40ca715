package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
)

const thinDriver = "535.261.03"

// precompiled builds the thin image for the newest kernel of debian12, with these flags, and returns it under
// its first tag.
func precompiled(t *testing.T, dir string, flags ...string) (image, result) {
	t.Helper()
	args := []string{program(t), "--progress", "plain", "--os", "debian12", "--driver", thinDriver, "--kernel", "latest", "--base", base(t, "debian12", "amd64"),
		"--compression", "zstd", // as in ci/cluster: the layer with the modules is made once
		"--matrix", filepath.Join(repository(t), "matrix.yaml"), "--output", "oci:" + dir}
	r := command{args: append(args, flags...)}.want(t, 0)
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	if len(lines) != 2 {
		t.Fatalf("want two lines, one a tag:\n%s", r)
	}
	var images []image
	for _, line := range lines {
		ref, d, _ := strings.Cut(line, "@")
		images = append(images, image{dir: dir, tag: ref[strings.LastIndex(ref, ":")+1:], digest: d})
	}
	release := newestKernel(t)
	if images[0].tag != thinDriver+"-"+release+"-debian12" || images[1].tag != "535-"+release+"-debian12" || images[0].digest != images[1].digest {
		t.Errorf("tags and digests: %+v", images)
	}
	return images[0], r
}

// newestKernel returns the first of the system's usual kernels that driver-build kernels lists.
func newestKernel(t *testing.T) string {
	t.Helper()
	var list struct {
		Items []struct {
			Kernel, Flavour string
			Default         bool
		}
	}
	out := sh(t, program(t), "kernels", "--os", "debian12", "--base", base(t, "debian12", "amd64"), "-o", "json", "--progress", "quiet")
	require.NoError(t, json.Unmarshal([]byte(out), &list))
	for _, k := range list.Items {
		if k.Default && k.Flavour == "amd64" {
			return k.Kernel
		}
	}
	t.Fatalf("driver-build kernels lists no kernel of the usual series:\n%s", out)
	return ""
}

// An image with modules has all of them. Both runners make the same bytes: in a chroot in one folder, and in
// a BuildKit daemon. A second image takes the modules from driver-build's cache, and from the daemon's if
// that one is empty.
func TestPrecompiled(t *testing.T) {
	root := journey(t)
	local, _ := precompiled(t, filepath.Join(workspace(t), "debian", "thin"), "--builder", "chroot")
	layer := "modules proprietary " + newestKernel(t)
	var names []string
	for name := range local.contents(t, layer) {
		names = append(names, path.Base(name))
	}
	for _, name := range []string{"nvidia.ko", "nvidia-uvm.ko", "nvidia-modeset.ko", "nvidia-drm.ko", "manifest.json"} {
		if !slices.Contains(names, name) {
			t.Errorf("there is no %s among the modules: %q", name, names)
		}
	}
	t.Run("BuildKit", func(t *testing.T) {
		sameByBuildKit(t, root, local, layer)
	})
}

// sameByBuildKit compiles in a BuildKit daemon in a pod what a chroot has compiled with the same flags,
// and compares.
func sameByBuildKit(t *testing.T, root string, local image, layer string, given ...string) {
	t.Helper()
	daemon := filepath.Join(scratch(t), "daemon")
	address := sh(t, filepath.Join(root, "ci", "buildkitd"), "start", daemon)
	t.Cleanup(func() { // not with the test's context, which has ended then
		if out, err := exec.Command(filepath.Join(root, "ci", "buildkitd"), "stop", daemon).CombinedOutput(); err != nil {
			t.Errorf("stop the daemon: %v\n%s", err, out)
		}
	})
	pod := podOf(t, root, address)
	cache := cacheWithout(t, local, layer)
	remote, first := precompiled(t, filepath.Join(scratch(t), "remote"), append([]string{"--builder", pod, "--cache", cache}, given...)...)
	assert.Containsf(t, first.stderr, "compiling with buildkit "+pod, "it was not the daemon that compiled %s", first)
	here, there := local.contents(t, layer), remote.contents(t, layer)
	for name, sum := range here {
		if there[name] != sum {
			t.Errorf("%s is %s by the chroot and %s by BuildKit", name, sum, there[name])
		}
	}
	if len(here) != len(there) || local.digest != remote.digest {
		t.Errorf("%d and %d files, images %s and %s", len(here), len(there), local.digest, remote.digest)
	}
	t.Logf("both runners gave the same %d files; chroot image %s, BuildKit took %s", len(here), local.digest, first.took)

	forget(t, cache, remote, layer)
	again, second := precompiled(t, filepath.Join(scratch(t), "again"), append([]string{"--builder", "buildkit=" + address, "--cache", cache}, given...)...)
	if again.digest != local.digest || !strings.Contains(second.stderr, "cached") {
		t.Errorf("the daemon's cache was not hit\n%s", second)
	}
	t.Logf("from the daemon's cache: %s", second.took)
	if _, warm := precompiled(t, filepath.Join(scratch(t), "warm"), append([]string{"--builder", "buildkit=unix:///nonexistent", "--cache", cache}, given...)...); strings.Contains(warm.stderr, "compiling") {
		t.Errorf("it compiled what it had\n%s", warm)
	}
}

// podOf returns the address of a pod that has a daemon, and puts a program into PATH that replaces kubectl:
// it refuses all other arguments than those for this pod, and runs the real buildctl.
func podOf(t *testing.T, root, address string) string {
	t.Helper()
	bin := scratch(t)
	script := fmt.Sprintf(`#!/bin/sh
[ "$*" = '--context= --namespace=ci exec --container= -i buildkitd-0 -- buildctl dial-stdio' ] || { echo "arguments: $*" >&2; exit 64; }
BUILDKIT_HOST='%s' exec '%s/bin/buildctl' dial-stdio
`, address, root)
	require.NoError(t, os.WriteFile(filepath.Join(bin, "kubectl"), []byte(script), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	return "kube-pod://buildkitd-0?namespace=ci"
}

// cacheWithout returns a copy of driver-build's cache, by hard links, that lacks a layer of an image.
func cacheWithout(t *testing.T, i image, layer string) string {
	t.Helper()
	own := require.Value(os.UserCacheDir())(t)
	dir, err := os.MkdirTemp(own, "driver-build-e2e-*") //nolint:usetesting // hard links need the same file system
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	for _, part := range []string{"blobs", "keys"} {
		sh(t, "cp", "-al", filepath.Join(own, "driver-build", part), dir)
	}
	forget(t, dir, i, layer)
	return dir
}

// forget removes the entries of a layer from a cache.
func forget(t *testing.T, cache string, i image, layer string) {
	t.Helper()
	hash := require.Value(i.layer(t, layer).Digest())(t)
	records := require.Value(filepath.Glob(filepath.Join(cache, "keys", "layer-*.json")))(t)
	found := 0
	for _, record := range records {
		text := require.Value(os.ReadFile(record))(t)
		if strings.Contains(string(text), hash.String()) {
			require.NoError(t, os.Remove(record))
			found++
		}
	}
	if found == 0 {
		t.Fatalf("the cache in %s knows no layer %s", cache, hash)
	}
}
