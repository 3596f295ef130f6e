// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
	"github.com/alioth-net/alioth/cnid/system/durable"
)

// folder keeps leases on disk. Only root can read them.
type folder string

// saved is the file of a lease.
type saved struct {
	Interface string          `json:"interface"`
	Family    ipfamily.Family `json:"family"`
	// Identity is the identity of the client that got the lease; mostly it contains
	// the hardware address. A lease of another client is worth nothing.
	Identity string     `json:"identity"`
	Lease    dhcp.Lease `json:"lease"`
}

const (
	suffix      = ".lease"
	machineFile = "machine"
	// maxFile is the largest file that is read; a lease has limits far below.
	maxFile = 64 << 10
)

func (f folder) path(key dhcp.Key) string {
	return filepath.Join(string(f), fmt.Sprintf("%s.%d%s", key.Interface, key.Family, suffix))
}

// save writes a lease, so that it survives a power failure.
func (f folder) save(key dhcp.Key, identity []byte, lease *dhcp.Lease) error {
	return f.write(f.path(key), saved{
		Interface: key.Interface, Family: key.Family, Identity: hex.EncodeToString(identity), Lease: *lease,
	})
}

func (f folder) write(path string, content any) error {
	text, err := json.Marshal(content)
	if err != nil {
		return err
	}
	file, err := durable.Create(path, text)
	if err != nil {
		return err
	}
	return file.Close()
}

// load returns the lease of a client, and nil without a usable lease.
func (f folder) load(key dhcp.Key, identity []byte, now time.Time) (*dhcp.Lease, error) {
	var s saved
	if err := f.read(f.path(key), &s); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	if s.Interface != key.Interface || s.Family != key.Family || s.Identity != hex.EncodeToString(identity) {
		return nil, nil
	}
	lease := &s.Lease
	rewind(lease, now)
	if lease.Expired(now) || lease.HasAddress() && lease.Address.Addr().Is4() != (key.Family == ipfamily.IPv4) {
		return nil, nil
	}
	return lease, nil
}

// rewind corrects a lease of the future, from before the clock was set back: nothing tells how
// much of it is over, but all of it is the most that is left.
func rewind(lease *dhcp.Lease, now time.Time) {
	ahead := lease.Acquired.Sub(now)
	if ahead <= 0 {
		return
	}
	for _, t := range []*time.Time{&lease.Acquired, &lease.Renew, &lease.Rebind, &lease.Preferred, &lease.Expires} {
		if !t.IsZero() {
			*t = t.Add(-ahead)
		}
	}
}

func (f folder) read(path string, content any) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, content); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// remove removes the lease of a client.
func (f folder) remove(key dhcp.Key) error { return durable.Remove(f.path(key)) }

// keepOnly removes the leases of all other clients: they ended while nothing ran.
func (f folder) keepOnly(keys []dhcp.Key) error {
	entries, err := os.ReadDir(string(f))
	if err != nil {
		return err
	}
	var kept []string
	for _, key := range keys {
		kept = append(kept, f.path(key))
	}
	var errs []error
	for _, entry := range entries {
		path := filepath.Join(string(f), entry.Name())
		if strings.HasSuffix(path, suffix) && !slices.Contains(kept, path) {
			errs = append(errs, durable.Remove(path))
		}
	}
	return errors.Join(errs...)
}

// machine returns what identifies the host to servers, and makes it the first time.
func (f folder) machine(now time.Time) (dhcp.Machine, error) {
	var m dhcp.Machine
	path := filepath.Join(string(f), machineFile)
	err := f.read(path, &m)
	if err == nil || !errors.Is(err, os.ErrNotExist) {
		return m, err
	}
	if _, err := rand.Read(m.UUID[:]); err != nil {
		return m, err
	}
	m.Since = uint32(now.Sub(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) / time.Second)
	return m, f.write(path, m)
}
