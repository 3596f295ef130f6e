// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
)

var (
	key      = dhcp.Key{Interface: "eth1", Family: ipfamily.IPv4}
	identity = []byte{1, 2, 0, 0, 0, 0, 1}
	now      = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

func leaseOf(address string) *dhcp.Lease {
	return &dhcp.Lease{
		Address: netip.MustParsePrefix(address), Server: netip.MustParseAddr("192.0.2.1"),
		Acquired: now, Renew: now.Add(30 * time.Minute), Rebind: now.Add(50 * time.Minute), Preferred: now.Add(time.Hour), Expires: now.Add(time.Hour),
	}
}

func TestLeaseFile_SameClient_ReadAgain(t *testing.T) {
	f := folder(t.TempDir())
	if err := f.save(key, identity, leaseOf("192.0.2.10/24")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(f.path(key)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info.Mode(), err)
	}
	other := []byte{9}
	for name, c := range map[string]struct {
		key      dhcp.Key
		identity []byte
		now      time.Time
		want     bool
	}{
		"the same":         {key, identity, now.Add(59 * time.Minute), true},
		"later":            {key, identity, now.Add(time.Hour), false},
		"other identity":   {key, other, now, false},
		"other interface":  {dhcp.Key{Interface: "eth2", Family: ipfamily.IPv4}, identity, now, false},
		"other family":     {dhcp.Key{Interface: "eth1", Family: ipfamily.IPv6}, identity, now, false},
		"a clock set back": {key, identity, now.Add(-48 * time.Hour), true},
	} {
		lease, err := f.load(c.key, c.identity, c.now)
		if err != nil || (lease != nil) != c.want {
			t.Errorf("%s: got %+v, %v", name, lease, err)
		}
		if lease != nil && lease.Expires.Sub(c.now) > time.Hour {
			t.Errorf("%s: %s of an hour are left", name, lease.Expires.Sub(c.now))
		}
	}
}

func TestLeaseFile_ForeignContent_NoLease(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "cut off": `{"interface":"eth1","fam`, "nothing": "{}",
		"an address of the other family": `{"interface":"eth1","family":4,"identity":"01020000000001","lease":{"address":"2001:db8::1/128"}}`,
	} {
		f := folder(t.TempDir())
		if err := os.WriteFile(f.path(key), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if lease, _ := f.load(key, identity, now); lease != nil {
			t.Errorf("%s: got %+v", name, lease)
		}
	}
}

func TestLeaseFile_OtherClients_Removed(t *testing.T) {
	f := folder(t.TempDir())
	if _, err := f.machine(now); err != nil {
		t.Fatal(err)
	}
	gone := dhcp.Key{Interface: "eth2", Family: ipfamily.IPv6}
	for _, k := range []dhcp.Key{key, gone} {
		if err := f.save(k, identity, leaseOf("192.0.2.10/24")); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.keepOnly([]dhcp.Key{key}); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(string(f), "*"))
	if err != nil || len(left) != 2 {
		t.Errorf("left are %v, %v", left, err)
	}
}

func TestHostIdentity_Restart_Kept(t *testing.T) {
	f := folder(t.TempDir())
	first, err := f.machine(now)
	if err != nil {
		t.Fatal(err)
	}
	second, err := f.machine(now.Add(time.Hour))
	if err != nil || first != second || first.Since == 0 || first.UUID == [16]byte{} {
		t.Errorf("got %+v and %+v, %v", first, second, err)
	}
}

func TestLeaseFile_HostileName_StaysInFolder(t *testing.T) {
	m, err := New(Options{Folder: filepath.Join(t.TempDir(), "leases")})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", ".", "..", "../x", "a/b", "a b", "sixteencharacter"} {
		if err := m.Set([]dhcp.Config{{Interface: name, V4: &dhcp.V4{}}}); err == nil || len(m.Leases()) != 0 {
			t.Errorf("%q: got %v, %v", name, err, m.Leases())
		}
	}
}
