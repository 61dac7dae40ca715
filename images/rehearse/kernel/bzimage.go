package kernel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/pierrec/lz4/v4"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/compression"
	"github.com/driver-container/driver-container/distros/elffile"
	"github.com/driver-container/driver-container/distros/failure"
)

// Bounds of a kernel, in bytes.
const (
	maxImage   = 128 << 20 // as it is packaged; Debian's has 8 MiB
	maxVmlinux = 512 << 20 // unpacked; Debian's has 60 MiB
	maxNotes   = 1 << 20   // of the notes in it
)

// errNotKernel says that a file is no kernel that can be started.
var errNotKernel = failure.New(failure.Content, "it is no Linux kernel for amd64 (bzImage)")

// errPacked says that a kernel has to unpack itself.
var errPacked = errors.New("the kernel inside the image cannot be started as it is")

// The header of a bzImage (Documentation/arch/x86/boot.rst).
const (
	setupSectorsAt  = 0x1f1
	bootFlagAt      = 0x1fe
	magicAt         = 0x202
	versionAt       = 0x206
	payloadAt       = 0x248
	payloadLengthAt = 0x24c
	headerEnd       = 0x250

	bootFlag       = 0xaa55
	payloadVersion = 0x208 // the first with the place of the payload
	sector         = 512
	sizeLength     = 4 // the size of the unpacked kernel, behind the payload
)

// vmlinux returns the kernel inside a bzImage, if QEMU can start it by its PVH entry: an emulated
// processor takes 2 to 4 seconds to unpack it. Otherwise the error is errPacked, and errNotKernel
// for what is no bzImage.
func vmlinux(image []byte) ([]byte, error) {
	payload, err := payloadOf(image)
	if err != nil {
		return nil, err
	}
	unpacked, err := unpack(payload)
	if err != nil {
		return nil, err
	}
	return unpacked, checkEntry(unpacked)
}

// lz4Legacy begins the format of lz4 that kernels have (Documentation/x86/boot.rst of Linux: payload_offset).
const lz4Legacy = "\x02\x21\x4c\x18"

// unpack returns the content of a payload.
func unpack(payload []byte) ([]byte, error) {
	kind := compression.Of(payload)
	if kind != compression.Gzip { // gzip ends with the size itself
		payload = payload[:len(payload)-sizeLength]
	}
	if bytes.HasPrefix(payload, []byte(lz4Legacy)) {
		content, err := bounded.Read(lz4.NewReader(bytes.NewReader(payload)), maxVmlinux)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errPacked, err)
		}
		return content, nil
	}
	if kind == "" {
		return nil, fmt.Errorf("%w: it is compressed in a way that is not read here", errPacked)
	}
	stream := compression.Stream{Limit: maxVmlinux, Format: errPacked}
	content, err := stream.Open(bytes.NewReader(payload), kind)
	if err != nil {
		return nil, err
	}
	defer content.Close() //nolint:errcheck // it reads memory
	return bounded.Read(content, maxVmlinux)
}

// payloadOf is the compressed kernel of a bzImage, with the size behind it.
func payloadOf(image []byte) ([]byte, error) {
	if len(image) < headerEnd ||
		binary.LittleEndian.Uint16(image[bootFlagAt:]) != bootFlag ||
		string(image[magicAt:magicAt+4]) != "HdrS" {
		return nil, errNotKernel
	}
	if binary.LittleEndian.Uint16(image[versionAt:]) < payloadVersion {
		return nil, fmt.Errorf("%w: it is older than Linux 2.6.26", errPacked)
	}
	sectors := int64(image[setupSectorsAt])
	if sectors == 0 {
		sectors = 4
	}
	begin := (sectors+1)*sector + int64(binary.LittleEndian.Uint32(image[payloadAt:]))
	end := begin + int64(binary.LittleEndian.Uint32(image[payloadLengthAt:]))
	if end > int64(len(image)) || end-begin < compression.HeadSize+sizeLength {
		return nil, fmt.Errorf("%w: its content is from byte %d to %d, and it has %d",
			errNotKernel, begin, end, len(image))
	}
	return image[begin:end], nil
}

// The note by which QEMU finds the entry for PVH (XEN_ELFNOTE_PHYS32_ENTRY of xen/elfnote.h).
const (
	xenName      = "Xen\x00"
	physical32   = 18
	noteHeader   = 12
	noteAligned  = 4
	notesSection = ".notes"
)

// checkEntry says whether a kernel has an entry for PVH.
func checkEntry(kernel []byte) error {
	file, err := elffile.Read(bytes.NewReader(kernel), int64(len(kernel)))
	if err != nil {
		return fmt.Errorf("%w: %w", errPacked, err)
	}
	notes, err := file.Section(notesSection, maxNotes)
	if err != nil {
		return fmt.Errorf("%w: %w", errPacked, err)
	}
	for len(notes) >= noteHeader {
		nameSize := int64(binary.LittleEndian.Uint32(notes))
		size := int64(binary.LittleEndian.Uint32(notes[4:]))
		kind := binary.LittleEndian.Uint32(notes[8:])
		next := noteHeader + aligned(nameSize) + aligned(size)
		if next > int64(len(notes)) {
			break
		}
		if string(notes[noteHeader:noteHeader+nameSize]) == xenName && kind == physical32 {
			return nil
		}
		notes = notes[next:]
	}
	return fmt.Errorf("%w: it has no entry for PVH", errPacked)
}

func aligned(size int64) int64 { return (size + noteAligned - 1) / noteAligned * noteAligned }
