// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Sums is the file with the checksums, in the form of sha256sum.
const Sums = "SHA256SUMS"

// WriteSums writes the checksums of all other files of a folder, in the order of their names.
func WriteSums(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, file := range files {
		if file.Name() == Sums {
			continue
		}
		sum, err := sumOf(filepath.Join(dir, file.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s  %s\n", sum, file.Name())
	}
	return os.WriteFile(filepath.Join(dir, Sums), []byte(text.String()), 0o644)
}

func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
