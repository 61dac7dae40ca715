package verify

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/description"
	"github.com/driver-container/driver-container/images/layer"
)

// imageLayer is a layer of an image.
type imageLayer struct {
	v1.Layer
	number     int // from 1, the bottom one
	digest, id v1.Hash
}

func (l imageLayer) String() string { return fmt.Sprintf("layer %d (%s)", l.number, l.digest) }

// layersOf are the layers of an image, the bottom one first.
func layersOf(img v1.Image) (all []imageLayer, err error) {
	layers, err := img.Layers()
	if err != nil {
		return nil, fmt.Errorf("read the layers: %w", err)
	}
	for i, l := range layers {
		digest, err := l.Digest()
		if err != nil {
			return nil, err
		}
		id, err := l.DiffID()
		if err != nil {
			return nil, err
		}
		all = append(all, imageLayer{l, i + 1, digest, id})
	}
	return all, nil
}

// findDescription finds the highest layer with a description that names layers. at is its place; -1:
// there is none.
func findDescription(
	ctx context.Context,
	store *fetch.Store,
	layers []imageLayer,
) (info driverinfo.Description, at int, err error) {
	for i, l := range slices.Backward(layers) {
		info, err = description.Read(ctx, store, l)
		switch {
		case errors.Is(err, description.ErrOther):
		case err != nil:
			return info, -1, fmt.Errorf("%s: %w", l, err)
		case len(info.Layers) > 0:
			return info, i, nil
		}
	}
	return driverinfo.Description{}, -1, nil
}

// compareImage compares an image that driver-build made with its description: the layers below the
// description are those that it names, above it lie only layers that the caller allows, and the
// configuration is the recorded one. described is false for images of others.
func (s *subject) compareImage(
	ctx context.Context,
	store *fetch.Store,
	layers []imageLayer,
	allowed []v1.Hash,
) (described bool, err error) {
	info, at, err := findDescription(ctx, store, layers)
	if err != nil || at < 0 {
		return false, err
	}
	above := layers[at+1:]
	for _, l := range above {
		if slices.Contains(allowed, l.digest) || slices.Contains(allowed, l.id) {
			s.find(Note, "", "%s was added to the build, which --allow-layer allows: it has %s", l, contents(l))
			continue
		}
		s.foreign(l)
	}
	s.compareLayers(layers[:at], info.Layers)
	s.compareConfiguration(info.Configuration, len(above) > 0)
	return true, nil
}

// compareLayers compares layers with the diff IDs of those that were built.
func (s *subject) compareLayers(layers []imageLayer, built []string) {
	left := map[string]int{}
	for _, id := range built {
		left[id]++
	}
	same := true
	for _, l := range layers {
		if left[l.id.String()] == 0 {
			s.foreign(l)
			same = false
			continue
		}
		left[l.id.String()]--
	}
	for i, id := range built {
		if left[id] > 0 {
			left[id]--
			s.fail("", "layer %d of the build (diff ID %s) is missing", i+1, id)
			same = false
		}
	}
	if !same {
		return
	}
	for i, l := range layers {
		if l.id.String() != built[i] {
			s.fail("", "%s is in the place of the build's %s: the layers are in another order", l, built[i])
		}
	}
}

// foreign reports a layer that is not of the build.
func (s *subject) foreign(l imageLayer) {
	s.fail(
		"",
		"%s is not of the build: it has %s; build the image again, or allow the layer with --allow-layer %s",
		l,
		contents(l),
		l.id,
	)
}

// maxNamed is how many files of a layer are named.
const maxNamed = 20

// contents names what a layer has.
func contents(l imageLayer) string {
	var names []string
	more := 0
	err := eachName(l, func(name string) {
		if len(names) < maxNamed {
			names = append(names, fmt.Sprintf("%.200s", name))
		} else {
			more++
		}
	})
	if len(names) == 0 {
		names = []string{"no file"}
	}
	text := strings.Join(names, ", ")
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if err != nil {
		text += fmt.Sprintf(", and cannot be read further: %v", err)
	}
	return text
}

// eachName calls f with the name of each member of a layer, except folders.
func eachName(l v1.Layer, f func(name string)) (err error) {
	r, err := layer.Open(l)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	members := tar.NewReader(r)
	for {
		member, err := members.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if member.Typeflag != tar.TypeDir {
			f(member.Name)
		}
	}
	_, err = io.Copy(io.Discard, r)
	return err
}
