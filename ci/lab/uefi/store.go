package uefi

import (
	"encoding/binary"
	"fmt"
	"unicode/utf16"
)

// The layout: a firmware volume's header, which has its own length at offset 48; the store's header {GUID,
// uint32 size with this header, format, state, 6 reserved bytes}; variables, each at a multiple of 4; 0xff up
// to the store's end.
const (
	volumeLength = 48
	storeHeader  = 16 + 4 + 8
	formatted    = 0x5a
	healthy      = 0xfe

	startID        = 0x55aa
	variableHeader = 60
	added          = 0x3f // state of a variable in use
	addedLeaving   = 0x3e // state of a variable in use whose successor has not been written
)

// storeType is gEfiAuthenticatedVariableGuid.
var storeType = guid(0xaaf32c78, 0x947b, 0x439a, 0xa1802e144ec37792)

// maxStore bounds what is read; OVMF's store has half a megabyte.
const maxStore = 16 << 20

// bounds finds the store in the flash: where its variables begin, and where it ends.
func bounds(flash []byte) (begin, end int, err error) {
	if len(flash) < volumeLength+2 || len(flash) > maxStore {
		return 0, 0, fmt.Errorf("variable store: %w: a flash of %d bytes", ErrFormat, len(flash))
	}
	at := int(binary.LittleEndian.Uint16(flash[volumeLength:]))
	if at < volumeLength+2 || at+storeHeader > len(flash) || GUID(flash[at:at+16]) != storeType {
		return 0, 0, fmt.Errorf("variable store: %w: no authenticated variable store at %d", ErrFormat, at)
	}
	size := uint64(binary.LittleEndian.Uint32(flash[at+16:]))
	if size < storeHeader || uint64(at)+size > uint64(len(flash)) || flash[at+20] != formatted || flash[at+21] != healthy {
		return 0, 0, fmt.Errorf("variable store: %w: %d bytes at %d, format %#x, state %#x", ErrFormat, size, at, flash[at+20], flash[at+21])
	}
	return align(at + storeHeader), at + int(size), nil
}

func align(n int) int { return (n + 3) &^ 3 }

// walk calls each for every variable in use and returns where the free space begins and ends.
func walk(flash []byte, each func(Variable)) (free, end int, err error) {
	at, end, err := bounds(flash)
	if err != nil {
		return 0, 0, err
	}
	le := binary.LittleEndian
	for at+variableHeader <= end && le.Uint16(flash[at:]) == startID {
		h := flash[at : at+variableHeader]
		name, data := uint64(le.Uint32(h[36:])), uint64(le.Uint32(h[40:]))
		last := uint64(at) + variableHeader + name + data
		if last > uint64(end) || name < 2 || name%2 != 0 {
			return 0, 0, fmt.Errorf("variable at %d: %w: a name of %d and a value of %d bytes", at, ErrFormat, name, data)
		}
		text := flash[at+variableHeader:][:name]
		if state := h[2]; state == added || state == addedLeaving {
			each(Variable{decode(text), GUID(h[44:60]), le.Uint32(h[4:]), flash[last-data : last]})
		}
		at = align(int(last))
	}
	return min(at, end), end, nil
}

// decode reads a name up to its end mark.
func decode(text []byte) string {
	var units []uint16
	for i := 0; i < len(text); i += 2 {
		u := binary.LittleEndian.Uint16(text[i:])
		if u == 0 {
			break
		}
		units = append(units, u)
	}
	return string(utf16.Decode(units))
}

// Read lists the variables of a flash that are in use, in their order. Their data shares the flash's bytes.
// Errors: ErrFormat.
func Read(flash []byte) ([]Variable, error) {
	var all []Variable
	_, _, err := walk(flash, func(v Variable) { all = append(all, v) })
	return all, err
}

// Append returns a copy of a flash with variables added. The flash must not have any of them yet.
func Append(flash []byte, variables ...Variable) ([]byte, error) {
	type id struct {
		name   string
		vendor GUID
	}
	there := map[id]bool{}
	at, end, err := walk(flash, func(v Variable) { there[id{v.Name, v.Vendor}] = true })
	if err != nil {
		return nil, err
	}
	out := append([]byte(nil), flash...)
	for _, v := range variables {
		if there[id{v.Name, v.Vendor}] {
			return nil, fmt.Errorf("add the variable %s-%s: it is there already", v.Name, v.Vendor)
		}
		there[id{v.Name, v.Vendor}] = true
		raw := v.encode()
		if at+len(raw) > end {
			return nil, fmt.Errorf("add the variable %s-%s of %d bytes: %d are free", v.Name, v.Vendor, len(raw), end-at)
		}
		copy(out[at:], raw)
		at += len(raw)
	}
	return out, nil
}

// encode returns the variable as it is stored, padded.
func (v Variable) encode() []byte {
	le := binary.LittleEndian
	var name []byte
	for _, u := range append(utf16.Encode([]rune(v.Name)), 0) {
		name = le.AppendUint16(name, u)
	}
	raw := le.AppendUint16(nil, startID)
	raw = append(raw, added, 0)
	raw = le.AppendUint32(raw, v.Attributes)
	raw = le.AppendUint64(raw, 0) // monotonic count, obsolete
	var stamp [16]byte            // EFI_TIME: year, month, day; the rest is 0
	if v.Attributes&Authenticated != 0 {
		le.PutUint16(stamp[:], 2024) // a change must be signed with a later time
		stamp[2], stamp[3] = 1, 1
	}
	raw = append(raw, stamp[:]...)
	for _, n := range []int{0, len(name), len(v.Data)} { // the first: index of a public key, obsolete
		raw = le.AppendUint32(raw, uint32(n))
	}
	raw = append(append(append(raw, v.Vendor[:]...), name...), v.Data...)
	for len(raw)%4 != 0 {
		raw = append(raw, 0xff)
	}
	return raw
}
