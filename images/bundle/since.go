package bundle

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Stock is what a site has: the blobs of an earlier bundle, or of a repository. It is a small file that the
// site can send back.
type Stock struct {
	Source string `json:"source"` // digest of the bundle's manifest, or the repository
	Blobs  []Blob `json:"blobs"`
}

// Stock returns what a site has after it has imported the bundle. raw is the list's bytes.
func (l *List) Stock(raw []byte) (Stock, error) {
	m, err := Manifest(raw)
	return Stock{Source: m.Desc.Digest.String(), Blobs: l.Blobs}, err
}

// DecodeStock reads a stock, or the list of an earlier bundle.
func DecodeStock(raw []byte) (Stock, error) {
	if l, err := Decode(raw); err == nil {
		return l.Stock(raw)
	}
	var s Stock
	if err := json.Unmarshal(raw, &s); err != nil {
		return Stock{}, fmt.Errorf("it is neither the list of a bundle nor that of a repository: %w", err)
	}
	if s.Source == "" || len(s.Source) > maxText || len(s.Blobs) > MaxMembers {
		return Stock{}, fmt.Errorf("it is neither the list of a bundle nor that of a repository: source %q, %d blobs", s.Source, len(s.Blobs))
	}
	for _, b := range s.Blobs {
		if err := checkDigest(b.Digest); err != nil {
			return Stock{}, err
		}
	}
	return s, nil
}

// Known returns those of the blobs that a site has, sorted by digest; the first of the stocks that has a blob
// is named as its source.
func Known(blobs []Blob, stocks []Stock) []Absent {
	from := map[v1.Hash]string{}
	for _, s := range stocks {
		for _, b := range s.Blobs {
			if from[b.Digest] == "" {
				from[b.Digest] = s.Source
			}
		}
	}
	var all []Absent
	for _, b := range blobs {
		if source := from[b.Digest]; source != "" {
			all = append(all, Absent{b, source})
		}
	}
	slices.SortFunc(all, func(a, b Absent) int { return strings.Compare(a.Digest.Hex, b.Digest.Hex) })
	return all
}
