// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package initramfs writes the file system that a kernel unpacks into memory
// before it starts init.
package initramfs

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/cavaliergopher/cpio"
)

// Writer writes an archive of the kernel's format ("newc"). It is not
// compressed: unpacking takes the guest longer than reading takes the host.
type Writer struct {
	cpio *cpio.Writer
	// folders and programs have the ones added so far.
	folders, programs map[string]bool
}

// NewWriter returns a Writer to w. Close completes the archive.
func NewWriter(w io.Writer) *Writer {
	return &Writer{cpio: cpio.NewWriter(w), folders: map[string]bool{"/": true, ".": true}, programs: map[string]bool{}}
}

// Close completes the archive.
func (w *Writer) Close() error { return w.cpio.Close() }

// Folder adds a folder and those above it.
func (w *Writer) Folder(name string) error {
	if w.folders[name] {
		return nil
	}
	if err := w.Folder(path.Dir(name)); err != nil {
		return err
	}
	w.folders[name] = true
	return w.header(name, cpio.TypeDir|0o755, 0)
}

// Bytes adds a file.
func (w *Writer) Bytes(name string, content []byte) error {
	if err := w.Folder(path.Dir(name)); err != nil {
		return err
	}
	if err := w.header(name, cpio.TypeReg|0o644, int64(len(content))); err != nil {
		return err
	}
	if _, err := w.cpio.Write(content); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// File adds a copy of a file of this machine, with its permissions.
func (w *Writer) File(name, from string) error {
	if err := w.Folder(path.Dir(name)); err != nil {
		return err
	}
	f, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("add %s: %w", name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("add %s: %w", name, err)
	}
	if err := w.header(name, cpio.TypeReg|cpio.FileMode(info.Mode().Perm()), info.Size()); err != nil {
		return err
	}
	if _, err := io.Copy(w.cpio, f); err != nil {
		return fmt.Errorf("add %s: %w", name, err)
	}
	return nil
}

// Tree adds the files of a folder of this machine, if there is one.
func (w *Writer) Tree(name, from string) error {
	if _, err := os.Stat(from); os.IsNotExist(err) {
		return nil
	}
	return filepath.WalkDir(from, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		below, err := filepath.Rel(from, file)
		if err != nil {
			return err
		}
		return w.File(path.Join(name, filepath.ToSlash(below)), file)
	})
}

// Link adds a symbolic link.
func (w *Writer) Link(name, target string) error {
	if err := w.Folder(path.Dir(name)); err != nil {
		return err
	}
	if err := w.header(name, cpio.TypeSymlink|0o777, int64(len(target))); err != nil {
		return err
	}
	if _, err := w.cpio.Write([]byte(target)); err != nil {
		return fmt.Errorf("write the link %s: %w", name, err)
	}
	return nil
}

func (w *Writer) header(name string, mode cpio.FileMode, size int64) error {
	// Names in the archive are relative to the root.
	err := w.cpio.WriteHeader(&cpio.Header{Name: strings.TrimPrefix(name, "/"), Mode: mode, Size: size, Links: 1})
	if err != nil {
		return fmt.Errorf("add %s: %w", name, err)
	}
	return nil
}
