// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package delegate

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/cnid/system/durable"
)

// ErrNotKept reports that the delegated attachment does not exist.
var ErrNotKept = errors.New("delegated attachment is unknown")

const (
	keptSuffix = ".json"
	// damagedSuffix is the end of the names of files that could not be read.
	damagedSuffix = ".damaged"
)

// path returns the file of an attachment. The hash has no characters that a name can't have.
func (d *Delegates) path(containerID, ifName string) string {
	sum := sha256.Sum256([]byte(containerID + "\x00" + ifName))
	return filepath.Join(d.cfg.Dir, hex.EncodeToString(sum[:])+keptSuffix)
}

func (d *Delegates) keep(k Kept) error {
	text, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("encode delegated attachment: %w", err)
	}
	file, err := durable.Create(d.path(k.ContainerID, k.IfName), text)
	if err != nil {
		return fmt.Errorf(
			"keep the configuration of a delegated attachment: %w; make room in %s, or its file system writable",
			err,
			d.cfg.Dir,
		)
	}
	return file.Close()
}

func (d *Delegates) forget(k Kept) error {
	if err := durable.Remove(d.path(k.ContainerID, k.IfName)); err != nil {
		return fmt.Errorf("remove the configuration of a delegated attachment: %w; make %s writable", err, d.cfg.Dir)
	}
	return nil
}

// Get returns an attachment, or ErrNotKept.
func (d *Delegates) Get(containerID, ifName string) (Kept, error) {
	path := d.path(containerID, ifName)
	k, err := d.read(path)
	if err == nil && (k.ContainerID != containerID || k.IfName != ifName) {
		err = d.moveAside(path, errors.New("it is of another attachment"))
	}
	return k, err
}

// read returns the attachment in a file. A damaged file can't be repaired: it is moved
// aside, with an error in the log, because pods could not end otherwise.
func (d *Delegates) read(path string) (Kept, error) {
	var k Kept
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return k, ErrNotKept
	}
	if err != nil {
		return k, fmt.Errorf("read a delegated attachment: %w", err)
	}
	err = json.Unmarshal(text, &k)
	if err == nil {
		err = k.validate()
	}
	if err == nil {
		_, err = readChain(k.Conf)
	}
	if err != nil {
		return Kept{}, d.moveAside(path, err)
	}
	return k, nil
}

func (d *Delegates) moveAside(path string, cause error) error {
	aside := path + damagedSuffix
	if err := os.Rename(path, aside); err != nil {
		return fmt.Errorf("move damaged file aside: %w", err)
	}
	d.cfg.Log.Error("a delegated attachment can't be read; its plugins may have left something on the node",
		"movedTo", aside, "error", cause)
	return ErrNotKept
}

// All returns the attachments, the oldest first.
func (d *Delegates) All() ([]Kept, error) {
	entries, err := os.ReadDir(d.cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("list delegated attachments: %w", err)
	}
	var list []Kept
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), keptSuffix) {
			continue
		}
		k, err := d.read(filepath.Join(d.cfg.Dir, entry.Name()))
		if errors.Is(err, ErrNotKept) { // removed meanwhile, or moved aside
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, k)
	}
	slices.SortFunc(list, func(a, b Kept) int {
		return cmp.Or(a.Begun.Compare(b.Begun), cmp.Compare(a.ContainerID, b.ContainerID), cmp.Compare(a.IfName, b.IfName))
	})
	return list, nil
}
