// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package runtimelog

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestPluginCalls_RuntimeLog_Read(t *testing.T) {
	log := `time="2026-11-23T09:20:33Z" level=warning msg="Configuration migrated" t="10.766µs"
time="2026-11-23T09:20:34.100000000Z" level=debug msg="begin cni setup" podsandboxid=aa01
time="2026-11-23T09:20:34.200000000Z" level=debug msg="begin cni setup" podsandboxid=aa02
time="2026-11-23T09:20:34.300000000Z" level=debug msg="cni result: {\"Interfaces\":{\"eth0\":{}}}" podsandboxid=aa02
time="2026-11-23T09:20:34.600000000Z" level=debug msg="cni result: {\"Interfaces\":{\"eth0\":{}}}" podsandboxid=aa01
time="2026-11-23T09:20:35.000000000Z" level=debug msg="begin cni setup" podsandboxid=fa11ed
time="2026-11-23T09:20:35.100000000Z" level=debug msg="cni result: {}" podsandboxid=bef04e
`
	got, err := pluginCalls(strings.NewReader(log))
	if want := []time.Duration{100 * time.Millisecond, 500 * time.Millisecond}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v (%v), want %v", got, err, want)
	}
}
