// Package description has the last layer of an image: one file, which names the layers below and
// the image's configuration. It makes the layer and reads it, and knows no rule of an image.
package description

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/strictjson"
)

// LayerName is the name of the layer in the history of images: "driver-build VERSION: description".
const LayerName = "description"

// maxLayer bounds the layer in bytes, compressed or not: the file, and four headers of a tar.
const maxLayer = driverinfo.MaxBytes + 16<<10

// ErrOther means that a layer is not that of a description.
var ErrOther = errors.New("is not a layer with the image's description")

// Record completes what an image says of itself with the layers that it has, the bottom one first,
// and its configuration.
func Record(info *driverinfo.Description, layers []v1.Layer, config *v1.ConfigFile) error {
	info.Layers = nil
	for _, l := range layers {
		id, err := l.DiffID()
		if err != nil {
			return err
		}
		info.Layers = append(info.Layers, id.String())
	}
	recorded := *config
	recorded.RootFS = v1.RootFS{Type: "layers"}
	text, err := json.Marshal(recorded)
	if err != nil {
		return fmt.Errorf("record the configuration: %w", err)
	}
	info.Configuration, err = strictjson.Decode[map[string]any](text)
	return err
}

// Layer makes the layer of a description. of needs neither name nor key.
func Layer(
	ctx context.Context,
	cache layer.Cache,
	of layer.Spec,
	info driverinfo.Description,
) (v1.Layer, error) {
	text, err := info.Encode()
	if err != nil {
		return nil, fmt.Errorf("describe the image: %w", err)
	}
	of.Name = LayerName
	of.Single = true
	of.Key = layer.Key("description", string(text), of.Compression, of.Time.Unix())
	return cache.Make(
		ctx,
		of,
		func(_ context.Context, spool *rootfs.Spool, _ *progress.Step) (*rootfs.Tree, error) {
			return tree(spool, text)
		},
	)
}

// tree is the content of the layer.
func tree(spool *rootfs.Spool, text []byte) (*rootfs.Tree, error) {
	t := rootfs.New(spool, nil)
	return t, t.AddBytes(driverinfo.Path, 0o644, text)
}

// archive is the layer as Layer makes it of a text.
func archive(
	ctx context.Context,
	store *fetch.Store,
	text []byte,
	modified time.Time,
) (content []byte, err error) {
	spool, err := rootfs.NewSpool(store.Dir())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, spool.Close()) }()
	t, err := tree(spool, text)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.WriteTar(ctx, &b, modified)
	return b.Bytes(), err
}

// Image puts layers together with their configuration, of which mutate gets the list of layers, and
// with the annotations of the manifest.
func Image(
	config *v1.ConfigFile,
	layers []mutate.Addendum,
	annotations map[string]string,
) (v1.Image, error) {
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	img, err := mutate.Append(mutate.ConfigMediaType(img, types.OCIConfigJSON), layers...)
	if err != nil {
		return nil, fmt.Errorf("append the layers: %w", err)
	}
	made, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.RootFS = made.RootFS
	img, err = mutate.ConfigFile(img, config)
	if err != nil {
		return nil, err
	}
	//nolint:forcetypeassert,errcheck // it returns what it is given
	return mutate.Annotations(img, annotations).(v1.Image), nil
}

// Read returns the description that a layer has. The layer must be byte for byte the one that
// [Layer] makes of it, so that it cannot hold anything else. ErrOther is for all other layers.
func Read(
	ctx context.Context,
	store *fetch.Store,
	l v1.Layer,
) (info driverinfo.Description, err error) {
	content, err := read(l)
	if err != nil {
		return info, err
	}
	text, modified, err := file(content)
	if err != nil {
		return info, err
	}
	again, err := archive(ctx, store, text, modified)
	if err != nil {
		return info, err
	}
	if !bytes.Equal(content, again) {
		return info, fmt.Errorf("%w: it has more than /%s", ErrOther, driverinfo.Path)
	}
	_, err = strictjson.Decode[driverinfo.Description](text, jsonv2.RejectUnknownMembers(true))
	if err != nil {
		return info, fmt.Errorf("%w: %w", ErrOther, err)
	}
	info, err = driverinfo.Decode(text)
	if err != nil {
		return info, fmt.Errorf("%w: %w", ErrOther, err)
	}
	return info, nil
}

// read returns the content of a layer that is small enough.
func read(l v1.Layer) (content []byte, err error) {
	size, err := l.Size()
	if err != nil {
		return nil, err
	}
	if size > maxLayer {
		return nil, ErrOther
	}
	r, err := layer.Open(l)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	content, err = io.ReadAll(io.LimitReader(r, maxLayer+1))
	if err != nil {
		return nil, err
	}
	if len(content) > maxLayer {
		return nil, ErrOther
	}
	return content, nil
}

// file finds the file of a description in a tar.
func file(content []byte) (text []byte, modified time.Time, err error) {
	members := tar.NewReader(bytes.NewReader(content))
	for {
		member, err := members.Next()
		if err != nil {
			return nil, modified, fmt.Errorf("%w: it has no /%s", ErrOther, driverinfo.Path)
		}
		if member.Name == driverinfo.Path {
			text, err = io.ReadAll(io.LimitReader(members, maxLayer))
			if err != nil {
				return nil, modified, fmt.Errorf("%w: %w", ErrOther, err)
			}
			return text, member.ModTime, nil
		}
	}
}
