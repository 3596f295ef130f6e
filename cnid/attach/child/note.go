// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package child

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
	"time"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/attach"
	"github.com/alioth-net/alioth/cnid/netns"
)

// note is what is known of an interface from before it is made until it is removed. The
// mark alone, in the pod's namespace, is not enough: a pod with CAP_NET_ADMIN could give
// it to an interface in the name of another pod.
type note struct {
	ContainerID string `json:"containerID"`
	IfName      string `json:"ifName"`
	Request     string `json:"request,omitempty"`
	PodUID      string `json:"podUID"`
	Network     string `json:"network"`
	NetnsPath   string `json:"netnsPath"`
	// Mark is the alias of the interface.
	Mark string `json:"mark"`
	// Inode and Cookie identify the pod's namespace. Number is the one that the node's
	// namespace has for it: the kernel finds the pod's by it without a path.
	Inode  uint64 `json:"inode"`
	Cookie uint64 `json:"cookie"`
	Number int    `json:"number"`
	// Rules outlive the interface, so they are removed apart from it.
	Rules []attach.Rule `json:"rules,omitempty"`
	Begun time.Time     `json:"begun"`
}

func noteOf(spec attach.Spec, id netns.ID, number int) note {
	return note{
		ContainerID: spec.ContainerID, IfName: spec.IfName, Request: spec.Request, PodUID: spec.PodUID, Network: spec.Network,
		NetnsPath: spec.NetnsPath, Mark: attach.Mark(spec), Inode: id.Inode, Cookie: id.Cookie, Number: number, Rules: spec.Rules, Begun: time.Now(),
	}
}

// temporaryPrefix starts the name of an interface that is being made.
const temporaryPrefix = "alc"

func (n note) temporary() string {
	return attach.DeviceName(temporaryPrefix, n.ContainerID, n.IfName)
}

// marks reports whether a device of the pod's namespace has the mark of the interface.
func (n note) marks(link netlink.Link, kind attach.Kind) bool {
	return link.Type() == string(kind) && link.Attrs().Alias == n.Mark
}

// made reports whether a device of the pod's namespace is the interface, or what an ended
// process left of it.
func (n note) made(link netlink.Link, kind attach.Kind) bool {
	return n.marks(link, kind) || link.Type() == string(kind) && link.Attrs().Name == n.temporary()
}

// notes are files in a folder, one for each interface.
type notes struct{ dir string }

func newNotes(dir string) (notes, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return notes{}, fmt.Errorf("make the folder of notes about interfaces: %w", err)
	}
	return notes{dir}, nil
}

// suffix is that of a complete note. A note is written under another name first.
const suffix = ".json"

func (n notes) path(containerID, ifName string) string {
	sum := sha256.Sum256([]byte(containerID + "\x00" + ifName))
	return filepath.Join(n.dir, hex.EncodeToString(sum[:])+suffix)
}

func (n notes) put(one note) error {
	text, err := json.Marshal(one)
	if err != nil {
		return fmt.Errorf("write a note about an interface: %w", err)
	}
	path := n.path(one.ContainerID, one.IfName)
	err = os.WriteFile(path+".new", text, 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("write a note about an interface (is the file system of %s full or read-only?): %w", n.dir, err)
	}
	return nil
}

// get reports false if there is no note. One that can't be understood identifies nothing.
func (n notes) get(containerID, ifName string) (note, bool, error) {
	return read(n.path(containerID, ifName))
}

func read(path string) (one note, ok bool, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return one, false, nil
	}
	if err != nil {
		return one, false, fmt.Errorf("read a note about an interface: %w", err)
	}
	return one, json.Unmarshal(text, &one) == nil, nil
}

func (n notes) remove(one note) error {
	err := os.Remove(n.path(one.ContainerID, one.IfName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove a note about an interface: %w", err)
	}
	return nil
}

// all returns the notes, the oldest first.
func (n notes) all() ([]note, error) {
	files, err := os.ReadDir(n.dir)
	if err != nil {
		return nil, fmt.Errorf("list notes about interfaces: %w", err)
	}
	var list []note
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), suffix) {
			continue
		}
		one, ok, err := read(filepath.Join(n.dir, file.Name()))
		if err != nil {
			return nil, err
		}
		if ok {
			list = append(list, one)
		}
	}
	slices.SortFunc(list, func(x, y note) int {
		return cmp.Or(x.Begun.Compare(y.Begun), cmp.Compare(x.ContainerID+"/"+x.IfName, y.ContainerID+"/"+y.IfName))
	})
	return list, nil
}
