package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/Microsoft/hcsshim/ext4/tar2ext4"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/rootfs"
)

// maxDisk bounds the disk that is made of an image.
const maxDisk = 32 << 30

// stateOffset is where a superblock says that the file system is clean. tar2ext4 does not say it,
// and each mount would warn.
const stateOffset = 1024 + 58

// ImageDisk makes a disk of an image, or takes it from a folder, which keeps disks by the digests
// of their images. Owners, modes, device nodes and extended attributes are the image's.
func ImageDisk(ctx context.Context, image v1.Image, dir string) (Image, error) {
	file, err := image.ConfigFile()
	if err != nil {
		return Image{}, fmt.Errorf("read the image's configuration: %w", err)
	}
	digest, err := image.Digest()
	if err != nil {
		return Image{}, fmt.Errorf("read the image's digest: %w", err)
	}
	made := Image{
		Disk:    DiskFile(dir, digest),
		Env:     file.Config.Env,
		Command: slices.Concat(file.Config.Entrypoint, file.Config.Cmd),
	}
	now := time.Now() // so that the caller can remove what was not used for long
	err = os.Chtimes(made.Disk, now, now)
	if err == nil {
		return made, nil
	}
	err = writeImage(ctx, image, made.Disk)
	if err != nil {
		return Image{}, fmt.Errorf("make a disk of the image %s: %w", digest, err)
	}
	return made, nil
}

// DiskFile is the disk of an image in a folder of disks.
func DiskFile(dir string, image v1.Hash) string { return filepath.Join(dir, image.Hex+".ext4") }

// writeImage lays the layers over each other as a runtime does, and writes the result as a disk.
func writeImage(ctx context.Context, image v1.Image, path string) (err error) {
	spool, err := rootfs.NewSpool(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, spool.Close()) }()
	tree, err := layer.Flatten(ctx, image, spool, nil, progress.Quiet())
	if err != nil {
		return err
	}
	tar, writer := io.Pipe()
	go func() { writer.CloseWithError(tree.WriteTar(ctx, writer, time.Unix(0, 0))) }()
	return errors.Join(WriteDisk(tar, path), tar.Close())
}

// WriteDisk makes a file system, ext4, of a tar. The file appears when it is complete.
func WriteDisk(tar io.Reader, path string) error {
	partial, err := os.CreateTemp(filepath.Dir(path), ".disk-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(partial.Name()) }() // it is gone after the rename
	err = tar2ext4.Convert(tar, partial, tar2ext4.MaximumDiskSize(maxDisk))
	if err == nil {
		_, err = partial.WriteAt([]byte{1}, stateOffset)
	}
	err = errors.Join(err, partial.Close())
	if err != nil {
		return err
	}
	return os.Rename(partial.Name(), path)
}
