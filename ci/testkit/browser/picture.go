package browser

import (
	"errors"
	"image/png"
	"os"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

// Picture is what can be said of a screenshot without eyes.
type Picture struct {
	Colours    int // a blank one has few
	Brightness int // the average, from 0 for black to 100 for white
}

// Look reads a screenshot.
func Look(t *testing.T, file string) Picture {
	t.Helper()
	f := require.Value(os.Open(file))(t)
	img, err := png.Decode(f)
	require.NoError(t, errors.Join(err, f.Close()))
	colours, sum := map[[3]uint32]bool{}, uint64(0)
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			red, green, blue, _ := img.At(x, y).RGBA()
			colours[[3]uint32{red, green, blue}] = true
			sum += uint64(red) + uint64(green) + uint64(blue)
		}
	}
	pixels := uint64(img.Bounds().Dx() * img.Bounds().Dy())
	return Picture{Colours: len(colours), Brightness: int(sum * 100 / (3 * 0xffff * pixels))}
}
