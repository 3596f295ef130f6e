// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/compression"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// entry is one file, link or folder of an image.
type entry struct {
	path   string // in the image, without a leading slash
	source string // file to copy, "" for a link or a folder
	target string // of a symbolic link
	mode   int64
}

// contents is an image of one layer before it is written.
type contents struct {
	entries    []entry
	entrypoint string
}

func newContents(entrypoint string) *contents { return &contents{entrypoint: entrypoint} }

func (c *contents) file(source, path string) *contents {
	c.entries = append(c.entries, entry{path: path, source: source, mode: 0o755})
	return c
}

func (c *contents) link(path, target string) *contents {
	c.entries = append(c.entries, entry{path: path, target: target, mode: 0o777})
	return c
}

func (c *contents) dir(path string, mode int64) *contents {
	c.entries = append(c.entries, entry{path: path, mode: mode})
	return c
}

// digest hashes everything that the image is made of.
func (c *contents) digest() (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, c.entrypoint)
	for _, e := range c.complete() {
		fmt.Fprintln(h, e.path, e.target, e.mode)
		if e.source == "" {
			continue
		}
		if err := copyFile(h, e.source); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// complete returns the entries with their parent folders, sorted so that a folder comes before its
// content.
func (c *contents) complete() []entry {
	entries := slices.Clone(c.entries)
	known := map[string]bool{".": true}
	for _, e := range entries {
		known[e.path] = true
	}
	for _, e := range c.entries {
		for dir := path.Dir(e.path); !known[dir]; dir = path.Dir(dir) {
			known[dir] = true
			entries = append(entries, entry{path: dir, mode: 0o755})
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.path, b.path) })
	return entries
}

// write makes the archive, which appears complete or not at all.
func (c *contents) write(a Archive) error {
	if err := os.MkdirAll(filepath.Dir(a.Path), 0o755); err != nil {
		return fmt.Errorf("make the folder for archives: %w", err)
	}
	layerFile := a.Path + ".layer"
	defer os.Remove(layerFile)
	if err := c.writeLayer(layerFile); err != nil {
		return err
	}
	// Compression would cost more time than the copies it saves.
	layer, err := tarball.LayerFromFile(layerFile, tarball.WithCompression(compression.None))
	if err != nil {
		return fmt.Errorf("read the layer: %w", err)
	}
	image, err := c.image(empty.Image, layer, func(config *v1.ConfigFile) { config.Architecture = "amd64" })
	if err != nil {
		return err
	}
	ref, err := name.NewTag(a.Ref)
	if err != nil {
		return fmt.Errorf("parse the reference: %w", err)
	}
	if err := tarball.WriteToFile(a.Path+".new", ref, image); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	if err := os.Rename(a.Path+".new", a.Path); err != nil {
		return fmt.Errorf("name the archive: %w", err)
	}
	return os.WriteFile(a.Path+".digest", []byte(a.Digest), 0o644)
}

// image adds the layer to an empty image; complete adds to its configuration.
func (c *contents) image(base v1.Image, layer v1.Layer, complete func(*v1.ConfigFile)) (v1.Image, error) {
	image, err := mutate.AppendLayers(base, layer)
	if err != nil {
		return nil, fmt.Errorf("add the layer: %w", err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read the image's configuration: %w", err)
	}
	config = config.DeepCopy()
	config.OS = "linux"
	config.Config.Env = []string{"PATH=/usr/local/bin:/bin"}
	config.Config.WorkingDir = "/"
	if c.entrypoint != "" {
		config.Config.Entrypoint = []string{c.entrypoint}
	}
	complete(config)
	return mutate.ConfigFile(image, config)
}

func (c *contents) writeLayer(path string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("make the layer: %w", err)
	}
	defer f.Close()
	w := tar.NewWriter(f)
	for _, e := range c.complete() {
		if err := e.write(w); err != nil {
			return fmt.Errorf("add /%s to the layer: %w", e.path, err)
		}
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("finish the layer: %w", err)
	}
	return f.Close()
}

func (e entry) write(w *tar.Writer) error {
	header := &tar.Header{Name: e.path, Mode: e.mode, Linkname: e.target, ModTime: time.Unix(0, 0)}
	switch {
	case e.target != "":
		header.Typeflag = tar.TypeSymlink
	case e.source == "":
		header.Typeflag, header.Name = tar.TypeDir, e.path+"/"
	default:
		info, err := os.Stat(e.source)
		if err != nil {
			return err
		}
		header.Typeflag, header.Size = tar.TypeReg, info.Size()
	}
	if err := w.WriteHeader(header); err != nil || e.source == "" {
		return err
	}
	return copyFile(w, e.source)
}

func copyFile(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}
