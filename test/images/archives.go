// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"fmt"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Open describes an archive with one image of the reference ref.
func Open(ref, path string) (Archive, error) {
	tag, err := name.NewTag(ref)
	if err != nil {
		return Archive{}, fmt.Errorf("parse the reference: %w", err)
	}
	image, err := tarball.ImageFromPath(path, &tag)
	if err != nil {
		return Archive{}, fmt.Errorf("open the image archive %s: %w", path, err)
	}
	// The configuration has the digests of all layers.
	hash, err := image.ConfigName()
	if err != nil {
		return Archive{}, fmt.Errorf("read the image archive %s: %w", path, err)
	}
	return Archive{Ref: ref, Path: path, Digest: hash.Hex}, nil
}

// Rename writes the image of an archive to path, under another reference.
func Rename(from Archive, ref, path string) error {
	old, err := name.NewTag(from.Ref)
	if err != nil {
		return fmt.Errorf("parse the reference: %w", err)
	}
	tag, err := name.NewTag(ref)
	if err != nil {
		return fmt.Errorf("parse the reference: %w", err)
	}
	image, err := tarball.ImageFromPath(from.Path, &old)
	if err != nil {
		return fmt.Errorf("open the image archive %s: %w", from.Path, err)
	}
	if err := tarball.WriteToFile(path, tag, image); err != nil {
		return fmt.Errorf("write the image archive: %w", err)
	}
	return nil
}
