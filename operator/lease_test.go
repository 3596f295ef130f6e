// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// paper is a lock that all writers can write, or none.
type paper struct {
	resourcelock.Interface
	err error
	// seen runs while the record is on its way.
	seen func()
}

func (p paper) Identity() string { return "me" }

func (p paper) Create(context.Context, resourcelock.LeaderElectionRecord) error { return p.write() }

func (p paper) Update(context.Context, resourcelock.LeaderElectionRecord) error { return p.write() }

func (p paper) write() error {
	if p.seen != nil {
		p.seen()
	}
	return p.err
}

func record(holder string, seconds int) resourcelock.LeaderElectionRecord {
	return resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaseDurationSeconds: seconds}
}

func TestALeaseIsHeldFromItsCreationUntilItRunsOutOrIsGivenUp(t *testing.T) {
	l := &lease{Interface: paper{}}
	if l.held() {
		t.Error("held before anything was written")
	}
	if err := l.Create(t.Context(), record("me", 3600)); err != nil || !l.held() {
		t.Errorf("not held after its creation, error %v", err)
	}
	l.until = time.Now().Add(-time.Millisecond)
	if l.held() {
		t.Error("held after it ran out")
	}
	if err := l.Update(t.Context(), record("me", 3600)); err != nil || !l.held() {
		t.Errorf("not held after its renewal, error %v", err)
	}
	l.Interface = paper{seen: func() {
		if l.held() {
			t.Error("still held while others may see already that it is free")
		}
	}}
	if err := l.Update(t.Context(), record("", 1)); err != nil || l.held() {
		t.Errorf("held after it was given up, error %v", err)
	}
	l.Interface = paper{}
	if err := l.Update(t.Context(), record("me", 3600)); err != nil || l.held() {
		t.Errorf("a term that ended begins again, error %v", err)
	}
}

func TestALeaseThatCouldNotBeRenewedRunsOut(t *testing.T) {
	l := &lease{Interface: paper{err: errors.New("timeout")}}
	if err := l.Update(t.Context(), record("me", 3600)); err == nil || l.held() {
		t.Errorf("held although nobody knows, error %v", err)
	}
	l.Interface = paper{seen: func() { l.until = time.Time{} }}
	before := time.Now()
	if err := l.Update(t.Context(), record("me", 5)); err != nil {
		t.Fatal(err)
	}
	if after := time.Now(); l.until.Before(before.Add(5*time.Second)) || l.until.After(after.Add(5*time.Second)) {
		t.Errorf("held until %s, want 5 s after %s", l.until, before)
	}
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// body reports whether it was closed.
type body struct {
	*strings.Reader
	closed bool
}

func (b *body) Close() error {
	b.closed = true
	return nil
}

func TestWithoutTheLeaseOnlyReadsPass(t *testing.T) {
	late := 0
	l := &lease{Interface: paper{}, late: func() { late++ }}
	var passed []string
	guard := l.guard(transport(func(r *http.Request) (*http.Response, error) {
		passed = append(passed, r.Method)
		return &http.Response{Body: http.NoBody}, nil
	}))
	methods := []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	send := func() {
		for _, method := range methods {
			content := &body{Reader: strings.NewReader("{}")}
			request, err := http.NewRequestWithContext(t.Context(), method, "https://192.0.2.1/", content)
			if err != nil {
				t.Fatal(err)
			}
			response, err := guard.RoundTrip(request)
			if err == nil {
				response.Body.Close()
			} else if !errors.Is(err, errNotLeading) || !content.closed {
				t.Errorf("%s: error %v, body closed: %v", method, err, content.closed)
			}
		}
	}
	send()
	if got := strings.Join(passed, " "); got != "GET" || late != len(methods)-1 {
		t.Errorf("passed without the lease: %s; %d were late", got, late)
	}
	if err := l.Update(t.Context(), record("me", 3600)); err != nil {
		t.Fatal(err)
	}
	passed = nil
	send()
	if got := strings.Join(passed, " "); got != strings.Join(methods, " ") {
		t.Errorf("passed with the lease: %s", got)
	}
}
