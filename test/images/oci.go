// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/alioth-net/alioth/test/release/archive"
)

// Release is the product's image for several architectures.
type Release struct {
	// Ref is the full reference of the image.
	Ref string
	// Created is the time in the image and of all files.
	Created time.Time
	Labels  map[string]string
	// Programs has for each architecture the files of the programs by their names.
	Programs map[string]map[string]string
}

// Write writes the image as an OCI archive: an image layout with one index for all architectures,
// as a tar archive. The same programs give the same bytes. It returns the digest of the index.
// Registries know the image by this digest.
func (r Release) Write(path string) (digest string, err error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".image-")
	if err != nil {
		return "", fmt.Errorf("make a folder for the image: %w", err)
	}
	defer os.RemoveAll(dir)
	index, err := r.index(dir)
	if err != nil {
		return "", err
	}
	hash, err := index.Digest()
	if err != nil {
		return "", fmt.Errorf("compute the digest of the image: %w", err)
	}
	packed := filepath.Join(dir, "layout")
	written, err := layout.Write(packed, empty.Index)
	if err != nil {
		return "", fmt.Errorf("make the image layout: %w", err)
	}
	names := layout.WithAnnotations(
		map[string]string{"io.containerd.image.name": r.Ref, "org.opencontainers.image.ref.name": r.Ref},
	)
	if err := written.AppendIndex(index, names); err != nil {
		return "", fmt.Errorf("write the image layout: %w", err)
	}
	out, err := os.Create(path)
	if err != nil {
		return "", fmt.Errorf("make the archive: %w", err)
	}
	return hash.String(), errors.Join(archive.Folder(out, packed, r.Created), out.Close())
}

// index joins the images of all architectures. Their layers stay in dir until they are written.
func (r Release) index(dir string) (v1.ImageIndex, error) {
	var index v1.ImageIndex = empty.Index
	for _, arch := range slices.Sorted(maps.Keys(r.Programs)) {
		image, err := r.image(arch, filepath.Join(dir, arch+".layer"))
		if err != nil {
			return nil, fmt.Errorf("make the image for %s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: plain{image}, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return index, nil
}

// plain is an image whose descriptor in an index has no artifact type. Older clients of registries
// drop that field when they copy an index, and then refuse the copy for its other digest.
type plain struct{ v1.Image }

// ArtifactType returns "".
func (plain) ArtifactType() (string, error) { return "", nil }

func (r Release) image(arch, layerFile string) (v1.Image, error) {
	c := product(r.Programs[arch])
	if err := c.writeLayer(layerFile); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromFile(layerFile, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("read the layer: %w", err)
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	return c.image(base, layer, func(config *v1.ConfigFile) {
		config.Architecture, config.Created, config.Config.Labels = arch, v1.Time{Time: r.Created}, r.Labels
	})
}
