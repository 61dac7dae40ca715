package verify_test

import (
	"context"
	"fmt"
	"os"

	"github.com/google/go-containerregistry/pkg/v1/empty"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/verify"
)

// An image without a driver has findings that are errors.
func ExampleExaminer_Verify() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	store, err := fetch.OpenStore(dir)
	if err != nil {
		panic(err)
	}
	examiner := verify.Examiner{Store: store}
	findings, err := examiner.Verify(context.Background(), "empty", empty.Image, verify.Options{})
	if err != nil {
		panic(err)
	}
	fmt.Println(findings[0])
	fmt.Println(verify.Unfit(findings) != nil)
	// Output:
	// error: driver-version: no library of the driver has a version in its name (libcuda.so.X.Y.Z, libnvidia-ml.so.X.Y.Z)
	// true
}
