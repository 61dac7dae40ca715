package kernel

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/pierrec/lz4/v4"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/kbuildtest"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// note is a note of a kernel.
func note(name string, kind uint32, value string) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(name)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(value)))
	b = binary.LittleEndian.AppendUint32(b, kind)
	b = append(b, name...)
	b = append(b, make([]byte, aligned(int64(len(b)))-int64(len(b)))...)
	b = append(b, value...)
	return append(b, make([]byte, aligned(int64(len(b)))-int64(len(b)))...)
}

// kernelWith is a vmlinux that consists of notes.
func kernelWith(notes ...[]byte) []byte {
	return kbuildtest.ELF(elf.ET_EXEC, elf.EM_X86_64, nil, kbuildtest.Section{
		Name: ".notes", Type: elf.SHT_NOTE, Content: bytes.Join(notes, nil),
	})
}

// startable is a kernel that QEMU can start by PVH.
func startable() []byte {
	return kernelWith(note("Linux\x00", 257, "x"), note("Xen\x00", 18, "entry678"))
}

// bzImage is a kernel's image around a payload, which has the size behind it.
func bzImage(payload []byte) []byte {
	image := make([]byte, 2*sector, 2*sector+len(payload))
	image[setupSectorsAt] = 1
	binary.LittleEndian.PutUint16(image[bootFlagAt:], bootFlag)
	copy(image[magicAt:], "HdrS")
	binary.LittleEndian.PutUint16(image[versionAt:], 0x20f)
	binary.LittleEndian.PutUint32(image[payloadLengthAt:], uint32(len(payload)))
	return append(image, payload...)
}

// packed is a compressed kernel with its size behind it.
func packed(t testing.TB, ending string, kernel []byte) []byte {
	if ending == ".lz4" {
		var out bytes.Buffer
		w := lz4.NewWriter(&out)
		require.NoError(t, w.Apply(lz4.LegacyOption(true)))
		_, err := w.Write(kernel)
		require.NoError(t, errors.Join(err, w.Close()))
		return binary.LittleEndian.AppendUint32(out.Bytes(), uint32(len(kernel)))
	}
	data := repotest.Compress(t, ending, kernel)
	if ending == ".gz" {
		return data
	}
	return binary.LittleEndian.AppendUint32(data, uint32(len(kernel)))
}

// TestVmlinux: the kernel inside an image is found in each compression, and anything else is a kernel that
// unpacks itself, or none.
func TestVmlinux(t *testing.T) {
	t.Parallel()
	for _, ending := range []string{".gz", ".xz", ".zst", ".lz4"} {
		got := require.Value(vmlinux(bzImage(packed(t, ending, startable()))))(t)
		assert.Equalf(t, string(startable()), string(got), "%s", ending)
	}
	good := bzImage(packed(t, ".xz", startable()))
	changed := func(at int, value byte) []byte {
		image := bytes.Clone(good)
		image[at] = value
		return image
	}
	for what, c := range map[string]struct {
		image []byte
		want  error
	}{
		"nothing":               {nil, errNotKernel},
		"text":                  {bytes.Repeat([]byte("kernel\n"), 1000), errNotKernel},
		"only a header":         {good[:headerEnd], errNotKernel},
		"cut off":               {good[:len(good)-1], errNotKernel},
		"a payload elsewhere":   {changed(payloadAt+3, 0xff), errNotKernel},
		"a long payload":        {changed(payloadLengthAt+3, 0xff), errNotKernel},
		"a short payload":       {bzImage([]byte("\x1f\x8b")), errNotKernel},
		"an old header":         {changed(versionAt, 7), errPacked},
		"damaged lz4":           {bzImage([]byte("\x02\x21\x4c\x18 and so on")), errPacked},
		"lzma":                  {bzImage([]byte("\x5d\x00\x00\x80\x00 and so on")), errPacked},
		"a damaged payload":     {changed(2*sector+8, good[2*sector+8]+1), errPacked},
		"a kernel without PVH":  {bzImage(packed(t, ".gz", kernelWith(note("Xen\x00", 17, "entry")))), errPacked},
		"a note of another":     {bzImage(packed(t, ".gz", kernelWith(note("Not\x00", 18, "entry")))), errPacked},
		"a note that is longer": {bzImage(packed(t, ".gz", kernelWith([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\x12\x00\x00\x00Xen\x00")))), errPacked},
		"no notes":              {bzImage(packed(t, ".gz", kbuildtest.ELF(elf.ET_EXEC, elf.EM_X86_64, nil))), errPacked},
		"no ELF":                {bzImage(packed(t, ".gz", []byte("text"))), errPacked},
	} {
		_, err := vmlinux(c.image)
		assert.ErrorIs(t, err, c.want)
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

// FuzzImage: any file is an image and a kernel, or an error of a kind. Package compression has the targets
// for what lies between.
func FuzzImage(f *testing.F) {
	f.Add(bzImage(packed(f, ".gz", startable())))
	f.Add(startable())
	f.Fuzz(func(t *testing.T, content []byte) {
		_, err := payloadOf(content)
		if err != nil && !errors.Is(err, errNotKernel) && !errors.Is(err, errPacked) {
			t.Errorf("image: %v", err)
		}
		err = checkEntry(content)
		if err != nil && !errors.Is(err, errPacked) {
			t.Errorf("kernel: %v", err)
		}
	})
}

// FuzzCommands: any file has a list of commands, sorted, or an error.
func FuzzCommands(f *testing.F) {
	f.Add([]byte(busyboxText))
	f.Add([]byte("\x00[\x00[[\x00sh\x00ash\x00"))
	f.Fuzz(func(t *testing.T, program []byte) {
		names, err := commands(program)
		if err != nil {
			return
		}
		for _, name := range names {
			if name != "[" && name != "[[" && !isCommand(name) {
				t.Errorf("%q", name)
			}
		}
	})
}
