package rpmfile

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"
)

// installedTags maps entries of the signature header to the tags under which the database stores
// them (rpm's headerMergeLegacySigs).
var installedTags = []struct{ signature, installed Tag }{
	{SigTagSize, TagSigSize},
	{SigTagPGP, TagSigPGP},
	{SigTagMD5, TagSigMD5},
	{SigTagGPG, TagSigGPG},
	{SigTagPayloadSize, TagArchiveSize},
	{SigTagFileSignatures, TagFileSignatures},
	{SigTagFileSigLength, TagFileSigLength},
	{TagVeritySignatures, TagVeritySignatures},
	{TagVeritySigAlgo, TagVeritySigAlgo},
	{TagSHA1Header, TagSHA1Header},
	{TagSHA256Header, TagSHA256Header},
	{TagSHA3256Header, TagSHA3256Header},
	{TagDSAHeader, TagDSAHeader},
	{TagRSAHeader, TagRSAHeader},
	{TagOpenPGP, TagOpenPGP},
	{TagLongSigSize, TagLongSigSize},
	{TagLongArchiveSize, TagLongArchiveSize},
}

// stateNotInstalled is rpm's RPMFILE_STATE_NOTINSTALLED.
const stateNotInstalled = 2

// InstalledHeader returns the record that rpm writes into its database after it has installed the
// package: the header, its signatures and digests, the time in seconds, the states of the files
// (all installed), and the colour of the system. The colour is 3 if packages of 64 and 32 bits
// share a system, as on x86_64 (rpm's _transaction_color), otherwise 0. The number of the
// transaction is the time. rpm --verify and rpm -q use all of it.
//
// Files for which left returns true, by their absolute paths, are recorded as not installed, as rpm
// does with documentation if it leaves that out: rpm --verify then does not report them as missing.
// With nil, all files are installed.
func (f *File) InstalledHeader(
	installed time.Time,
	colour uint32,
	left func(path string) bool,
) (*Header, error) {
	var add []entry
	for _, t := range installedTags {
		e, ok := f.Signature.entries[t.signature]
		// some old packages have the size of their archive in the header
		if ok && !f.Header.Has(t.installed) {
			e.tag = t.installed
			add = append(add, e)
		}
	}
	number := func(tag Tag, n uint32) entry {
		return entry{tag, TypeInt32, 1, binary.BigEndian.AppendUint32(nil, n)}
	}
	seconds := uint32(installed.Unix())
	add = append(
		add,
		number(TagInstallTime, seconds),
		number(TagInstallTID, seconds),
		number(TagInstallColor, colour),
	)
	if n := len(f.files); n > 0 {
		states := make([]byte, n) // 0 is "normal"
		for i, x := range f.files {
			if left != nil && left(x.path) {
				states[i] = stateNotInstalled
			}
		}
		add = append(add, entry{TagFileStates, TypeChar, n, states})
	}
	h, err := f.Header.with(add)
	if err != nil {
		return nil, fmt.Errorf("rpm %s: record of the installation: %w", f.name(), err)
	}
	return h, nil
}

// with returns the header with entries added behind the immutable region, as rpm does when it
// installs a package: the bytes of the region do not change, and the entries behind it are sorted
// by their tags. An entry replaces one with the same tag; if that one is inside the region, its
// value stays there without effect. For a header without a region, everything is encoded again.
func (h *Header) with(entries []entry) (*Header, error) {
	behind := map[Tag]entry{}
	for _, p := range h.index[h.regionIndex:] {
		behind[p.Tag] = h.entries[p.Tag]
	}
	for _, e := range entries {
		behind[e.tag] = e
	}
	index := slices.Clone(h.index[:h.regionIndex])
	store := slices.Clone(h.store[:h.regionData])
	for _, tag := range slices.Sorted(maps.Keys(behind)) {
		e := behind[tag]
		for len(store)%alignment(e.kind) != 0 {
			store = append(store, 0)
		}
		index = append(index, place{tag, e.kind, int32(len(store)), uint32(e.count)})
		store = append(store, e.data...)
	}
	blob, err := binary.Append(nil, binary.BigEndian, sizes{uint32(len(index)), uint32(len(store))})
	if err != nil {
		return nil, err
	}
	blob, err = binary.Append(blob, binary.BigEndian, index)
	if err != nil {
		return nil, err
	}
	return ParseHeader(append(blob, store...))
}
