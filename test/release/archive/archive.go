// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package archive writes tar archives whose bytes depend on nothing but the names, the modes
// and the contents of files, and on one time for all of them.
package archive

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Folder writes the folder dir as a tar archive, in the order of the names.
func Folder(to io.Writer, dir string, at time.Time) error {
	w := tar.NewWriter(to)
	root := os.DirFS(dir)
	err := fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		if entry.IsDir() {
			return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: path + "/", Mode: 0o755, ModTime: at})
		}
		return addFile(w, filepath.Join(dir, path), path, at)
	})
	if err != nil {
		return fmt.Errorf("archive the folder %s: %w", dir, err)
	}
	return w.Close()
}

func addFile(w *tar.Writer, file, name string, at time.Time) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(header(name, info.Size(), int64(info.Mode().Perm()), at)); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}

// header describes a file; of the mode, whether it can be executed is kept alone.
func header(name string, size, mode int64, at time.Time) *tar.Header {
	kept := int64(0o644)
	if mode&0o100 != 0 {
		kept = 0o755
	}
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: kept, ModTime: at}
}

// member is a file of an archive.
type member struct {
	header *tar.Header
	text   []byte
}

// Repack writes the files of a compressed archive again, in the order of their names and without
// the data that depends on the machine and the time.
func Repack(to io.Writer, from io.Reader, at time.Time) error {
	members, err := unpack(from)
	if err != nil {
		return fmt.Errorf("read an archive: %w", err)
	}
	slices.SortFunc(members, func(a, b member) int { return cmp.Compare(a.header.Name, b.header.Name) })
	packed := gzip.NewWriter(to)
	w := tar.NewWriter(packed)
	for _, m := range members {
		if err := w.WriteHeader(header(m.header.Name, int64(len(m.text)), m.header.Mode, at)); err != nil {
			return fmt.Errorf("write %s to an archive: %w", m.header.Name, err)
		}
		if _, err := w.Write(m.text); err != nil {
			return fmt.Errorf("write %s to an archive: %w", m.header.Name, err)
		}
	}
	return errors.Join(w.Close(), packed.Close())
}

func unpack(from io.Reader) (members []member, err error) {
	unzipped, err := gzip.NewReader(from)
	if err != nil {
		return nil, err
	}
	for r := tar.NewReader(unzipped); ; {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			return members, nil
		}
		if err != nil {
			return nil, err
		}
		if head.Typeflag != tar.TypeReg {
			continue
		}
		var text bytes.Buffer
		if _, err := text.ReadFrom(r); err != nil {
			return nil, err
		}
		members = append(members, member{head, text.Bytes()})
	}
}
