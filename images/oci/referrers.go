package oci

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/images/strictjson"
)

// parseReferrers reads an index of referrers. What an entry says of its manifest is not verified:
// read the manifest.
func parseReferrers(raw []byte) (index v1.IndexManifest, err error) {
	index, err = strictjson.Decode[v1.IndexManifest](raw)
	if err != nil {
		return index, fmt.Errorf("the index of referrers is malformed: %w", err)
	}
	if index.MediaType != "" && !index.MediaType.IsIndex() || index.SchemaVersion != 2 {
		return index, fmt.Errorf(
			"it is no index of referrers, but of type %q and schema version %d",
			index.MediaType,
			index.SchemaVersion,
		)
	}
	for _, d := range index.Manifests {
		if d.Digest.Algorithm != "sha256" {
			return index, fmt.Errorf(
				"the index of referrers is malformed: entry %q (only sha256 is supported)",
				d.Digest,
			)
		}
	}
	return index, nil
}

// sortDigests sorts descriptors by digest, and keeps the first of each digest.
func sortDigests(all []v1.Descriptor) []v1.Descriptor {
	slices.SortStableFunc(
		all,
		func(a, b v1.Descriptor) int { return cmp.Compare(a.Digest.Hex, b.Digest.Hex) },
	)
	return slices.CompactFunc(all, func(a, b v1.Descriptor) bool { return a.Digest == b.Digest })
}

// AddReferrers returns an index of referrers with further entries, sorted by digest, for
// [ReferrersTag]. A raw of nil is an index without entries. The result is raw itself if it has all
// of them.
func AddReferrers(raw []byte, more []v1.Descriptor) ([]byte, error) {
	index := v1.IndexManifest{SchemaVersion: 2}
	if raw != nil {
		var err error
		index, err = parseReferrers(raw)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(
			more,
			func(d v1.Descriptor) bool { return !hasReferrer(index.Manifests, d) },
		) {
			return raw, nil
		}
	}
	all := []v1.Descriptor{} // the new entries first: of two for a digest the first one stays
	for _, d := range more {
		all = append(all, v1.Descriptor{
			MediaType: d.MediaType, Size: d.Size, Digest: d.Digest, ArtifactType: d.ArtifactType, Annotations: d.Annotations,
		})
	}
	index.MediaType = types.OCIImageIndex
	index.Manifests = sortDigests(append(all, index.Manifests...))
	out, err := json.Marshal(index)
	if err != nil {
		return nil, fmt.Errorf("make the index of referrers: %w", err)
	}
	if len(out) > MaxManifest {
		return nil, fmt.Errorf(
			"the index of referrers would have %d entries and more than %d bytes: remove old ones from the registry",
			len(index.Manifests),
			MaxManifest,
		)
	}
	return out, nil
}

func hasReferrer(all []v1.Descriptor, d v1.Descriptor) bool {
	return slices.ContainsFunc(all, func(o v1.Descriptor) bool {
		return o.Digest == d.Digest && o.Size == d.Size && o.ArtifactType == d.ArtifactType &&
			maps.Equal(o.Annotations, d.Annotations)
	})
}
