package lab

import (
	"fmt"
	"time"
)

// unpackedDir is where containerd keeps the layers of images and the upper layers of containers (the agent
// makes the latter).
const unpackedDir = "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots"

const unpackLimit = 5 * time.Minute

// Unpack copies an image to the guest's own disk, where containerd unpacks images: containers that are
// started from it from now on have two layers there below their own, the upper of which has the driver's
// modules and firmware. Without Unpack the image is a disk of its own.
func (g *Guest) Unpack(name string) {
	g.t.Helper()
	image, found := g.config.Images[name]
	if !found {
		g.t.Fatalf("the guest has no image %q", name)
	}
	const upper = "usr/share/nvidia-driver"
	base := fmt.Sprintf("%s/%s-", unpackedDir, name)
	script := fmt.Sprintf(`set -e
		mkdir -p %[1]s1/fs %[1]s2/fs/%[3]s
		cp -a %[2]s/. %[1]s1/fs
		rmdir %[1]s2/fs/%[3]s
		mv %[1]s1/fs/%[3]s %[1]s2/fs/%[3]s`, base, imageDir(name), upper)
	if r := g.RunFor(unpackLimit, "sh", "-c", script); r.Code != 0 {
		g.t.Fatalf("unpack %s: %s", name, r)
	}
	image.layers = fmt.Sprintf("%[1]s2/fs:%[1]s1/fs", base)
	g.config.Images[name] = image
}

// lowerdir returns the folders of an image's files, as in an overlay's option.
func (i Image) lowerdir(name string) string {
	if i.layers != "" {
		return i.layers
	}
	return imageDir(name)
}
