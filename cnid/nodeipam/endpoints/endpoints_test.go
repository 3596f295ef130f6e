// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoints_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/nodeipam/endpoints"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
)

const container = "0123456789abcdef"

func open(t *testing.T, dir string) *endpoints.Store {
	t.Helper()
	return openLogging(t, dir, t.Output())
}

func openLogging(t *testing.T, dir string, log interface{ Write([]byte) (int, error) }) *endpoints.Store {
	t.Helper()
	store, err := endpoints.Open(dir, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func patch(t *testing.T, store *endpoints.Store, id string, added map[string]endpoints.Interface) {
	t.Helper()
	if err := store.Patch(id, added); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	list := []string{}
	for _, entry := range entries {
		list = append(list, entry.Name())
	}
	return list
}

func TestEndpoints_Restart_AddedKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "endpoints")
	store := open(t, dir)
	patch(t, store, container, map[string]endpoints.Interface{"eth0": {HostVethName: "veth1", NICType: wire.InfraNIC}})
	patch(t, store, container, map[string]endpoints.Interface{
		"eth0": {HostVethName: "veth2", HnsEndpointID: "e"},
		"eth1": {MACAddress: "02:00:00:00:00:01", NICType: wire.FrontendNIC, HnsNetworkID: "n", NetworkContainerID: "nc"},
	})
	want := map[string]endpoints.Interface{
		"eth0": {HostVethName: "veth2", HnsEndpointID: "e", NICType: wire.InfraNIC},
		"eth1": {MACAddress: "02:00:00:00:00:01", NICType: wire.FrontendNIC, HnsNetworkID: "n", NetworkContainerID: "nc"},
	}
	for name, store := range map[string]*endpoints.Store{"at once": store, "after a restart": open(t, dir)} {
		if diff := cmp.Diff(want, store.Get(container)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if got := store.Get("a"); got != nil {
			t.Errorf("%s: another container has %v", name, got)
		}
	}
}

func TestEndpoints_Restart_DeletedStaysAway(t *testing.T) {
	dir := t.TempDir()
	store := open(t, dir)
	patch(t, store, "a", map[string]endpoints.Interface{"eth0": {HostVethName: "veth1"}})
	if err := store.Delete("a"); err != nil {
		t.Fatal(err)
	}
	if err := store.Delete("a"); !errors.Is(err, endpoints.ErrNotFound) {
		t.Errorf("the second time: %v", err)
	}
	if got := open(t, dir).Get("a"); got != nil || len(names(t, dir)) != 0 {
		t.Errorf("left: %v, %v", got, names(t, dir))
	}
}

func TestEndpoints_Unattached_NotKept(t *testing.T) {
	dir := t.TempDir()
	store := open(t, dir)
	for _, id := range []string{"a", "b", "c"} {
		patch(t, store, id, map[string]endpoints.Interface{"eth0": {HostVethName: "veth-" + id}})
	}
	if err := os.WriteFile(filepath.Join(dir, "d.json"), []byte("a file of which memory knows nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := store.Keep(func(id string) bool { return id == "b" }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"b.json"}, names(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if store.Get("a") != nil || store.Get("b") == nil {
		t.Errorf("a: %v, b: %v", store.Get("a"), store.Get("b"))
	}
}

func TestEndpoints_DamagedFile_MovedAside(t *testing.T) {
	dir := t.TempDir()
	patch(t, open(t, dir), "good", map[string]endpoints.Interface{"eth0": {HostVethName: "veth1"}})
	secret := filepath.Join(t.TempDir(), "secret")
	for path, text := range map[string]string{
		secret:                                `{"interfaces":{"eth0":{"hostVethName":"of another"}}}`,
		filepath.Join(dir, "half.json"):       `{"interfaces":{"eth0"`,
		filepath.Join(dir, "empty.json"):      ``,
		filepath.Join(dir, "nothing.json"):    `{}`,
		filepath.Join(dir, "long.json"):       `{"interfaces":{"eth0":{"hostVethName":"` + strings.Repeat("v", 300) + `"}}}`,
		filepath.Join(dir, "name.json"):       `{"interfaces":{"a/b":{"hostVethName":"v"}}}`,
		filepath.Join(dir, "huge.json"):       `{"interfaces":{"eth0":{"hostVethName":"v"}}}` + strings.Repeat(" ", 1<<17),
		filepath.Join(dir, "unborn.json.new"): `{"interf`,
		filepath.Join(dir, "README"):          `not ours`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	err := errors.Join(os.Symlink(secret, filepath.Join(dir, "link.json")), os.Mkdir(filepath.Join(dir, "dir.json"), 0o700),
		unix.Mkfifo(filepath.Join(dir, "pipe.json"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	store := openLogging(t, dir, &log)
	if store.Get("good") == nil {
		t.Error("an intact file is lost")
	}
	damaged := []string{"half", "empty", "nothing", "long", "name", "huge", "link", "dir", "pipe"}
	for _, id := range damaged {
		if got := store.Get(id); got != nil {
			t.Errorf("%s: %v", id, got)
		}
		if aside, err := filepath.Glob(filepath.Join(dir, id+".json.damaged-*")); err != nil || len(aside) != 1 {
			t.Errorf("%s is not moved aside: %v, %v", id, aside, err)
		}
		if !strings.Contains(log.String(), "containerID="+id+" ") {
			t.Errorf("nobody hears of %s", id)
		}
	}
	if got := len(names(t, dir)); got != len(damaged)+2 {
		t.Errorf("in the directory: %v", names(t, dir))
	}
	// The place is free again.
	patch(t, store, "half", map[string]endpoints.Interface{"eth0": {HostVethName: "veth1"}})
}

func TestEndpoints_ManyDamagedFiles_NumberBounded(t *testing.T) {
	dir := t.TempDir()
	for i := range 40 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("c%d.json", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open(t, dir)
	if got := len(names(t, dir)); got != 16 {
		t.Errorf("%d files", got)
	}
}

func TestEndpoints_LimitExceeded_Refused(t *testing.T) {
	dir := t.TempDir()
	store := open(t, dir)
	one := endpoints.Interface{HostVethName: "v"}
	many := map[string]endpoints.Interface{}
	for i := range 33 {
		many[fmt.Sprintf("eth%d", i)] = one
	}
	for name, err := range map[string]error{
		"a long text":      store.Patch("a", map[string]endpoints.Interface{"eth0": {HostVethName: strings.Repeat("v", 257)}}),
		"many interfaces":  store.Patch("a", many),
		"no name":          store.Patch("a", map[string]endpoints.Interface{"": one}),
		"a strange name":   store.Patch("a", map[string]endpoints.Interface{"../x": one}),
		"a path as an ID":  store.Patch("../a", map[string]endpoints.Interface{"eth0": one}),
		"an empty ID":      store.Patch("", map[string]endpoints.Interface{"eth0": one}),
		"an ID of a file":  store.Patch(".", map[string]endpoints.Interface{"eth0": one}),
		"a very long name": store.Patch(strings.Repeat("a", 129), map[string]endpoints.Interface{"eth0": one}),
	} {
		if err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if got := names(t, dir); len(got) != 0 || store.Get("a") != nil {
		t.Errorf("left: %v", got)
	}
	for i := range 8192 {
		text := []byte(`{"interfaces":{"eth0":{"hostVethName":"v"}}}`)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("c%d.json", i)), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	store = open(t, dir)
	if err := store.Patch("another", map[string]endpoints.Interface{"eth0": one}); !errors.Is(err, endpoints.ErrLimit) {
		t.Errorf("one container too many: %v", err)
	}
	patch(t, store, "c0", map[string]endpoints.Interface{"eth1": one})
}

func TestEndpoints_WriteFails_ErrorReturned(t *testing.T) {
	dir := t.TempDir()
	store := open(t, dir)
	if err := os.Mkdir(filepath.Join(dir, "a.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := store.Patch("a", map[string]endpoints.Interface{"eth0": {HostVethName: "v"}}); err == nil || store.Get("a") != nil {
		t.Errorf("%v, %v", err, store.Get("a"))
	}
	if _, err := endpoints.Open(filepath.Join(dir, "a.json", "x", "\x00"), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a directory that can't exist is opened")
	}
}

func TestEndpoints_ParallelClients_NothingLost(t *testing.T) {
	dir := t.TempDir()
	store := open(t, dir)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if err := store.Patch("shared", map[string]endpoints.Interface{fmt.Sprintf("eth%d", i): {HostVethName: "v"}}); err != nil {
				t.Error(err)
			}
			store.Get("shared")
		})
	}
	wg.Wait()
	if got := open(t, dir).Get("shared"); len(got) != 20 {
		t.Errorf("%d interfaces: %v", len(got), got)
	}
}
