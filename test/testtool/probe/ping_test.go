// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestPingTally_NoReplies_RequestsWait(t *testing.T) {
	began := time.Unix(0, 0)
	p := &pingTally{}
	for i := range pending {
		if !p.begin(began.Add(time.Duration(i) * time.Millisecond)) {
			t.Fatalf("request %d waits", i)
		}
	}
	soon := began.Add(pending * time.Millisecond)
	if p.begin(soon) {
		t.Error("one more request does not wait for a reply")
	}
	p.note(3, soon)
	if !p.begin(soon) {
		t.Error("a request waits although a reply has come")
	}
	p = &pingTally{}
	for range pending {
		p.begin(began)
	}
	if p.begin(began.Add(pendingFor - 1)) {
		t.Error("a request does not give the last ones their time")
	}
	if !p.begin(began.Add(pendingFor)) {
		t.Error("a request waits although the last ones are lost")
	}
}

func TestKeepSending_NoReply_KeepsSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), pendingFor)
		defer cancel()
		sent := 0
		keepSending(ctx, time.Millisecond, func(uint64) error { sent++; return nil })
		if want := int(pendingFor / time.Millisecond); sent < want {
			t.Errorf("%d requests were sent in %s without a reply, want one each millisecond", sent, pendingFor)
		}
	})
}
