// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package queue is the directory for releases that nobody took: a CNI plugin whose node
// service does not answer leaves a file there, and its DEL succeeds. A DEL that failed
// instead would keep pods Terminating, which may keep the service itself from starting.
// Package drain applies the files.
//
// There are two forms. Plugins for CNS write a file with the name of the container ID and
// the podInterfaceID in it. Alioth's own also has the interface in its name, because a
// container may have several, and appears with its content in one step.
package queue

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
	"github.com/alioth-net/alioth/cnid/system/durable"
)

// DefaultDir survives a reboot, as the journal of attachments does.
const DefaultDir = "/var/lib/alioth/node-ipam-releases"

// DeletesOfCNS is the directory of the files of plugins for CNS. The plugins do not make the
// directory.
const DeletesOfCNS = "/run/azure-vnet/deleteIDs"

const (
	// separator is in no container ID and in no name of an interface.
	separator = ":"
	// suffix ends the names of Alioth's own form, so that unfinished files differ from them.
	suffix = ".release"
	// maxContent limits a file, in bytes.
	maxContent = 1024
)

// Errors that callers match.
var (
	// ErrUnfinished: the file is still being written, or its writer was killed.
	ErrUnfinished = errors.New("the file is not finished")
	// ErrStrange: the file does not contain a release, and never will.
	ErrStrange = errors.New("it is no release")
)

// Release names the attachments to release, as rest.Key does.
type Release struct {
	ContainerID string
	// IfName is "" in the form of CNS.
	IfName string
	// PodInterfaceID is "" without one.
	PodInterfaceID string
}

// Put leaves a release in a directory. It is on disk when Put returns. A second Put of the same
// release changes nothing.
func Put(dir string, r Release) error {
	err := errors.Join(
		wire.CheckContainerID(r.ContainerID),
		wire.CheckIfname(r.IfName),
		wire.CheckPodInterfaceID(r.PodInterfaceID),
	)
	if err != nil {
		return fmt.Errorf("queue a release: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("queue a release: %w", err)
	}
	file, err := durable.Create(filepath.Join(dir, r.ContainerID+separator+r.IfName+suffix), []byte(r.PodInterfaceID))
	if err != nil {
		return fmt.Errorf("queue a release: %w", err)
	}
	return file.Close()
}

// Read reads one file of a directory. Anybody may have written it. info identifies the read file.
func Read(dir, name string) (r Release, info os.FileInfo, err error) {
	if r, err = parse(name); err != nil {
		return r, nil, err
	}
	// Neither a link is followed nor a pipe waited for.
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENXIO):
		return r, nil, fmt.Errorf("%w: it is no regular file", ErrStrange)
	case err != nil:
		return r, nil, err
	}
	defer file.Close()
	if info, err = file.Stat(); err != nil {
		return r, nil, err
	}
	if !info.Mode().IsRegular() {
		return r, nil, fmt.Errorf("%w: it is no regular file", ErrStrange)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxContent+1))
	if err != nil {
		return r, nil, err
	}
	r.PodInterfaceID = strings.TrimSpace(string(text))
	if err := wire.CheckPodInterfaceID(r.PodInterfaceID); err != nil || len(text) > maxContent {
		return r, nil, fmt.Errorf("%w: its content is not a podInterfaceID", ErrStrange)
	}
	return r, info, nil
}

// parse reads the name of a file.
func parse(name string) (Release, error) {
	containerID, rest, own := strings.Cut(name, separator)
	ifName, finished := strings.CutSuffix(rest, suffix)
	switch err := errors.Join(wire.CheckContainerID(containerID), wire.CheckIfname(ifName)); {
	case own && strings.HasSuffix(rest, suffix+durable.Suffix):
		return Release{}, ErrUnfinished
	case err != nil || own && !finished:
		return Release{}, fmt.Errorf("%w: its name is none", ErrStrange)
	}
	return Release{ContainerID: containerID, IfName: ifName}, nil
}
