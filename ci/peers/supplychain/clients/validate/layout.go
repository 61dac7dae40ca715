package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/opencontainers/image-spec/schema"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// nodes are the members of an index or a manifest that name other documents.
type nodes struct {
	Subject   *v1.Descriptor  `json:"subject"`
	Config    *v1.Descriptor  `json:"config"`
	Manifests []v1.Descriptor `json:"manifests"`
	Layers    []v1.Descriptor `json:"layers"`
}

// layout is a folder, and the digests of its blobs that were judged.
type layout struct {
	dir    string
	judged map[string]bool
}

func validateLayout(dir string) error {
	header, err := os.ReadFile(filepath.Join(dir, v1.ImageLayoutFile))
	if err != nil {
		return err
	}
	err = schema.ValidatorMediaTypeLayoutHeader.Validate(bytes.NewReader(header))
	if err != nil {
		return err
	}
	l := layout{dir: dir, judged: map[string]bool{}}
	err = l.validate(v1.MediaTypeImageIndex, filepath.Join(dir, v1.ImageIndexFile))
	if err != nil {
		return err
	}
	fmt.Println(len(l.judged), "blobs")
	return nil
}

// validate judges a document, and all that it names.
func (l layout) validate(mediaType, path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	err = schema.Validator(mediaType).Validate(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("%s %s: %w", mediaType, path, err)
	}
	if mediaType == v1.MediaTypeImageConfig {
		return nil
	}
	var found nodes
	err = json.Unmarshal(data, &found)
	if err != nil {
		return err
	}
	all := append(found.Manifests, found.Layers...)
	for _, one := range []*v1.Descriptor{found.Config, found.Subject} {
		if one != nil {
			all = append(all, *one)
		}
	}
	for _, descriptor := range all {
		err = errors.Join(err, l.follow(descriptor))
	}
	return err
}

// follow judges a blob: its size always, its content where image-spec has a schema for it.
func (l layout) follow(descriptor v1.Descriptor) error {
	digest := descriptor.Digest
	if l.judged[digest.String()] {
		return nil
	}
	l.judged[digest.String()] = true
	path := filepath.Join(l.dir, "blobs", digest.Algorithm().String(), digest.Encoded())
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Size() != descriptor.Size {
		return fmt.Errorf("%s has %d bytes, its descriptor says %d", path, info.Size(), descriptor.Size)
	}
	switch descriptor.MediaType {
	case v1.MediaTypeImageIndex, v1.MediaTypeImageManifest, v1.MediaTypeImageConfig:
		return l.validate(descriptor.MediaType, path)
	}
	return nil
}
