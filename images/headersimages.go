package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/osrelease"
	"github.com/driver-container/driver-container/images/headersimage"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
)

// HeadersKernel is a kernel whose modules an image can compile, and that image.
type HeadersKernel struct {
	headersimage.Kernel
	Ref    string              // the image as it was named
	Image  recipe.Base         // what is pinned of it
	System headersimage.System // of the image
}

// HeadersKernels lists the kernels of images with headers and a compiler, in the order of the
// images and each kernel once. The content of an image is read once and then kept in the cache by
// its digest. Errors: headersimage.ErrUnsuitable, those of registry.Client.Base, those of package
// rootfs.
func (b *Builder) HeadersKernels(
	ctx context.Context,
	refs []string,
	arch string,
) (all []HeadersKernel, err error) {
	for _, ref := range refs {
		found, image, err := b.openHeadersImage(ctx, ref, arch)
		_, other := errors.AsType[*oci.PlatformError](err)
		if other {
			err = fmt.Errorf("%w: name the architecture of the image with --arch", err)
		}
		if err != nil {
			return nil, fmt.Errorf("kernels of the image %s: %w", ref, err)
		}
		for _, k := range found.Kernels {
			if !slices.ContainsFunc(
				all,
				func(o HeadersKernel) bool { return o.Release == k.Release },
			) {
				all = append(all, HeadersKernel{k, ref, image, found.System})
			}
		}
	}
	return all, nil
}

// openHeadersImage reads what an image can compile for, which must be something. Its layers are
// downloaded only if the cache does not know the image yet.
func (b *Builder) openHeadersImage(
	ctx context.Context,
	ref, arch string,
) (found headersimage.Contents, image recipe.Base, err error) {
	step := b.Observe.Begin(ref, "kernels of the image")
	cached := false
	defer func() { err = step.End(cached, err) }()
	options := registry.OpenOptions{Arch: arch, Part: registry.Config}
	opened, err := b.Registry.Open(ctx, ref, options)
	if oci.IsLocal(ref) && errors.Is(err, fs.ErrNotExist) {
		return found, image, fmt.Errorf("%w: %w", headersimage.ErrUnsuitable, err)
	}
	if err != nil {
		return found, image, err
	}
	digest := opened.Digest.String()
	found, cached = headersimage.Cached(b.Store, digest)
	if !cached {
		options.Part = registry.Layers
		opened, err = b.Registry.Open(ctx, ref, options)
		if err != nil {
			return found, image, err
		}
		digest = opened.Digest.String()
		found, err = headersimage.Read(ctx, b.Store, opened.Image, digest, arch, step)
		if err != nil {
			return found, image, err
		}
	}
	image = recipe.Base{Name: opened.Name, Digest: digest, Location: opened.Name + "@" + digest}
	if oci.IsLocal(ref) {
		image = recipe.Base{Digest: digest, Location: ref}
	}
	for _, broken := range found.Broken {
		step.Note(fmt.Sprintf("kernel %s is left out: %s", broken.Kernel, broken.Reason))
	}
	return found, image, found.Check()
}

// headersImages pins the images of the kernels of a plan.
func (b *Builder) headersImages(
	ctx context.Context,
	t matrix.Target,
	o recipe.Options,
	step *progress.Step,
) (map[string]recipe.Base, error) {
	if len(o.KernelFrom) == 0 || len(o.Kernels) == 0 {
		return nil, nil
	}
	offered, err := b.HeadersKernels(ctx, o.KernelFrom, t.Arch)
	if err != nil {
		return nil, err
	}
	pins := map[string]recipe.Base{}
	for _, release := range o.Kernels {
		i := slices.IndexFunc(offered, func(k HeadersKernel) bool { return k.Release == release })
		if i < 0 {
			return nil, NoHeadersError(release, offered)
		}
		pins[release] = offered[i].Image
		if alias := missingAlias(t, offered[i].System); alias != "" {
			step.Note(
				fmt.Sprintf(
					"%s is of %s: the GPU Operator asks for images of such nodes by this name: add it to aliases of %s in the matrix (aliases: [%s])",
					offered[i].Ref,
					alias,
					t.System.ID,
					alias,
				),
			)
		}
	}
	return pins, nil
}

// missingAlias returns the name by which the GPU Operator asks for images of nodes with the system
// of a toolkit, if the target is for this system and its images do not get the name; otherwise "".
func missingAlias(t matrix.Target, s headersimage.System) string {
	tag := osrelease.Tag(s.ID, s.VersionID)
	if s.ID == "" || !t.Distro.Matches(s.ID, s.VersionID) || tag == t.System.ID ||
		slices.Contains(t.System.Aliases, tag) {
		return ""
	}
	return tag
}

// NoHeadersError is the error for a kernel that none of the images has.
func NoHeadersError(release string, offered []HeadersKernel) error {
	var have []string
	for _, k := range offered {
		have = append(have, k.Release)
	}
	return fmt.Errorf(
		"%w: %q: no image of --kernel-from has its headers; they have %s",
		recipe.ErrKernel,
		release,
		strings.Join(have, ", "),
	)
}

// headersImage opens the image that a kernel is compiled in. It also returns the search path for
// the image's programs.
func (b *Builder) headersImage(
	ctx context.Context,
	pinned recipe.Base,
	arch string,
) (img v1.Image, searchPath string, err error) {
	img, err = b.pinned(ctx, "image to compile in", pinned, arch, func() (*registry.Opened, error) {
		return b.Registry.Open(
			ctx,
			pinned.Location,
			registry.OpenOptions{Arch: arch, Part: registry.Layers},
		)
	})
	if err != nil {
		return nil, "", err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, "", fmt.Errorf("configuration of %s: %w", pinned.Location, err)
	}
	return img, headersimage.SearchPath(config.Config.Env), nil
}
