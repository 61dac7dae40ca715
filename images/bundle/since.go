package bundle

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/strictjson"
)

// Stock is what a site has: the blobs of an earlier bundle, or of a repository. It is a small file
// that the site can send back.
type Stock struct {
	Source string `json:"source"` // digest of the bundle's manifest, or the repository
	Blobs  []Blob `json:"blobs"`
}

// DecodeStock reads a stock, or the list of an earlier bundle. Its errors are of kind
// failure.Usage.
func DecodeStock(raw []byte) (Stock, error) {
	l, notList := Decode(raw)
	if notList == nil {
		m, err := manifestOf(raw)
		return Stock{Source: m.Desc.Digest.String(), Blobs: l.Blobs}, err
	}
	s, err := strictjson.Decode[Stock](raw)
	if err != nil || s.Source == "" {
		return Stock{}, failure.Errorf(
			failure.Usage, "it is neither the list of a bundle nor that of a repository: %w",
			cmp.Or(err, errors.New("it names no source")),
		)
	}
	return s, nil
}

// known returns those of the blobs that a site has, sorted by digest; the first of the stocks that
// has a blob is named as its source.
func known(blobs []Blob, stocks []Stock) (all []Absent) {
	from := map[v1.Hash]string{}
	for _, s := range slices.Backward(stocks) {
		for _, b := range s.Blobs {
			from[b.Digest] = s.Source
		}
	}
	for _, b := range blobs {
		if source := from[b.Digest]; source != "" {
			all = append(all, Absent{b, source})
		}
	}
	slices.SortFunc(all, func(a, b Absent) int { return compareHash(a.Digest, b.Digest) })
	return all
}

// StockOf returns what a repository has: the blobs of all its tags, and of what belongs to them.
func StockOf(ctx context.Context, c *registry.Client, repository string) (s Stock, err error) {
	g := gatherer{client: c, origin: repository, places: map[string]int{}}
	tags, err := c.ListTags(ctx, repository)
	if err != nil {
		return s, err
	}
	for _, t := range tags {
		err := g.artifact(ctx, source{kind: Image, ref: repository + ":" + t})
		if err != nil {
			return s, err
		}
	}
	parts, err := partsOf(g.all)
	if err != nil {
		return s, err
	}
	blobs := map[Blob]bool{}
	for _, p := range parts {
		for _, b := range p.Blobs {
			blobs[Blob{b.Desc.Digest, b.Desc.Size}] = true
		}
	}
	s = Stock{repository, slices.AppendSeq([]Blob{}, maps.Keys(blobs))}
	slices.SortFunc(s.Blobs, func(a, b Blob) int { return compareHash(a.Digest, b.Digest) })
	return s, nil
}
