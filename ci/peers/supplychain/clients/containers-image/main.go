// Command containers-image asks containers/image, the library of Podman, CRI-O and Skopeo, whether
// a policy accepts an image.
//
//	containers-image accept POLICY REGISTRIES.D HOST/PATH:TAG
//
// As the library's copy of an image does, accept looks at the manifest for this machine where the
// name is that of an index. The exit code is 3 where the policy refuses the image. Registries may
// speak plain HTTP.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"go.podman.io/image/v5/docker"
	"go.podman.io/image/v5/image"
	"go.podman.io/image/v5/manifest"
	"go.podman.io/image/v5/signature"
	"go.podman.io/image/v5/types"
)

// refused is the exit code for an image that the policy refuses.
const refused = 3

func main() {
	err := errors.New("usage: containers-image accept POLICY REGISTRIES.D HOST/PATH:TAG")
	if len(os.Args) == 5 && os.Args[1] == "accept" {
		err = accept(context.Background(), os.Args[2], os.Args[3], os.Args[4])
	}
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "containers-image:", err)
	var policy signature.PolicyRequirementError
	var invalid signature.InvalidSignatureError // by another key
	if errors.As(err, &policy) || errors.As(err, &invalid) {
		os.Exit(refused)
	}
	os.Exit(1)
}

func accept(ctx context.Context, policyFile, registries, name string) error {
	policy, err := signature.NewPolicyFromFile(policyFile)
	if err != nil {
		return err
	}
	judge, err := signature.NewPolicyContext(policy)
	if err != nil {
		return err
	}
	reference, err := docker.ParseReference("//" + name)
	if err != nil {
		return err
	}
	system := &types.SystemContext{
		RegistriesDirPath:           registries,
		DockerInsecureSkipTLSVerify: types.OptionalBoolTrue,
		SystemRegistriesConfPath:    "/dev/null",
		SystemRegistriesConfDirPath: registries,
	}
	source, err := reference.NewImageSource(ctx, system)
	if err != nil {
		return err
	}
	defer source.Close()
	chosen, err := instance(ctx, system, source)
	if err != nil {
		return err
	}
	if allowed, err := judge.IsRunningImageAllowed(ctx, chosen); err != nil || !allowed {
		return fmt.Errorf("source image rejected: %w", err)
	}
	return nil
}

// instance returns the image, or that of an index for this machine.
func instance(
	ctx context.Context,
	system *types.SystemContext,
	source types.ImageSource,
) (*image.UnparsedImage, error) {
	whole := image.UnparsedInstance(source, nil)
	raw, kind, err := whole.Manifest(ctx)
	if err != nil || !manifest.MIMETypeIsMultiImage(kind) {
		return whole, err
	}
	list, err := manifest.ListFromBlob(raw, kind)
	if err != nil {
		return nil, err
	}
	digest, err := list.ChooseInstance(system)
	return image.UnparsedInstance(source, &digest), err
}
