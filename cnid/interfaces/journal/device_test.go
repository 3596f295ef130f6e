// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestJournal_DeviceInUse_OneRecordOnly(t *testing.T) {
	j := open(t, testConfig(filepath.Join(t.TempDir(), "journal.log")))
	first, second := onDevice("one", "0000:03:10.1"), onDevice("two", "0000:03:10.1")
	if _, err := j.Begin(first); err != nil {
		t.Fatal(err)
	}
	_, err := j.Begin(second)
	if !errors.Is(err, ErrDeviceHeld) || !strings.Contains(err.Error(), "interface eth0 of pod ns/one has 0000:03:10.1; its sandbox one has to end first") {
		t.Errorf("a second record: %v", err)
	}
	if _, err := j.Adopt(second, Device{}); !errors.Is(err, ErrDeviceHeld) {
		t.Errorf("an adopted record: %v", err)
	}
	if _, err := j.Begin(onDevice("three", "0000:03:10.2")); err != nil {
		t.Errorf("another device: %v", err)
	}
	for _, without := range []string{"four", "five"} {
		if _, err := j.Begin(onDevice(without, "")); err != nil {
			t.Errorf("an interface without a device: %v", err)
		}
	}
	if _, err := j.Leave(first.Key); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Begin(second); !errors.Is(err, ErrDeviceHeld) {
		t.Errorf("while the first leaves: %v", err)
	}
	if err := j.Retire(first.Key); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Begin(second); err != nil {
		t.Errorf("after the first: %v", err)
	}
}

// TestJournal_RecordsOfPod_BegunAllOrNone: the first ones are in memory and in the
// file when the last one is refused.
func TestJournal_RecordsOfPod_BegunAllOrNone(t *testing.T) {
	cfg := testConfig(filepath.Join(t.TempDir(), "journal.log"))
	j := open(t, cfg)
	held := begin(t, j, onDevice("holder", "0000:03:10.1"))
	free, taken := onDevice("two", "0000:03:10.2"), onDevice("three", "0000:03:10.1")
	if begun, err := j.BeginAll([]Record{free, testRecord(1), taken}); !errors.Is(err, ErrDeviceHeld) || begun != nil {
		t.Errorf("with a device that is in use: %v, %v", begun, err)
	}
	if _, err := j.BeginAll([]Record{free, free}); !errors.Is(err, ErrExists) {
		t.Errorf("one record twice: %v", err)
	}
	if diff := cmp.Diff([]Record{held}, j.Records(), compareAddrs); diff != "" {
		t.Errorf("after refusals (-want +got):\n%s", diff)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = open(t, cfg)
	if diff := cmp.Diff([]Record{held}, j.Records(), compareAddrs); diff != "" || len(j.Releases()) != 0 {
		t.Errorf("on disk after refusals, with releases %v (-want +got):\n%s", j.Releases(), diff)
	}
	begun, err := j.BeginAll([]Record{free, testRecord(1)})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(append([]Record{held}, begun...), open(t, cfg).Records(), compareAddrs); diff != "" {
		t.Errorf("on disk (-want +got):\n%s", diff)
	}
}

// onDevice returns a record of a sandbox with a device.
func onDevice(sandbox, pci string) Record {
	return Record{
		Identity: Identity{Key: Key{ContainerID: sandbox, IfName: "eth0"}, Pod: Pod{Namespace: "ns", Name: sandbox, UID: sandbox}},
		Binding:  Binding{Outside: "ClusterNetwork/fast"}, Interface: Interface{Kind: "sriov", PCI: pci},
	}
}
