// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/leaderelection"
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

// far is a lock at an API server that answers once it is reached. As at a real one, a client that
// has not read the last record can't replace it.
type far struct {
	reached       chan struct{}
	written, read resourcelock.LeaderElectionRecord
}

func (f *far) wait(ctx context.Context) error {
	select {
	case <-f.reached:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *far) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := f.wait(ctx); err != nil {
		return nil, nil, err
	}
	f.read = f.written
	read := f.read
	return &read, []byte(fmt.Sprint(read)), nil
}

func (f *far) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return f.Update(ctx, record)
}

func (f *far) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := f.wait(ctx); err != nil {
		return err
	}
	if f.read != f.written {
		return errors.New("conflict")
	}
	f.read, f.written = record, record
	return nil
}

func (f *far) Identity() string   { return "me" }
func (f *far) Describe() string   { return "far" }
func (f *far) RecordEvent(string) {}

// TestElector_HeardAfterSuccessor_LeaseLeftAlone runs the elector: it leads, reaches nobody until its
// lease has ended, and is heard again after a successor has taken the lease.
func TestElector_HeardAfterSuccessor_LeaseLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		api := &far{reached: make(chan struct{})}
		close(api.reached)
		leads, ended := make(chan struct{}), make(chan struct{})
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: &lease{Interface: api}, ReleaseOnCancel: true,
			LeaseDuration: cfg.LeaseDuration, RenewDeadline: cfg.renewDeadline(), RetryPeriod: cfg.lookPeriod(),
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { close(leads) },
				OnStoppedLeading: func() { close(ended) },
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		go elector.Run(t.Context())
		<-leads
		synctest.Wait()
		api.reached = make(chan struct{})
		time.Sleep(cfg.LeaseDuration + cfg.renewPeriod()) //nolint:forbidigo // virtual time
		synctest.Wait()
		api.written = record("successor", 5)
		close(api.reached)
		<-ended
		if holder := api.written.HolderIdentity; holder != "successor" {
			t.Errorf("the lease of the successor is held by %q", holder)
		}
	})
}

func TestLease_HolderEnds_GivenUp(t *testing.T) {
	api := &far{reached: make(chan struct{})}
	close(api.reached)
	l := &lease{Interface: api}
	if err := l.Create(t.Context(), record("me", 5)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Update(t.Context(), record("", 1)); err != nil || api.written.HolderIdentity != "" {
		t.Errorf("error %v, the lease is held by %q", err, api.written.HolderIdentity)
	}
}

func record(holder string, seconds int) resourcelock.LeaderElectionRecord {
	return resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaseDurationSeconds: seconds}
}

func TestLease_Created_HeldUntilExpiredOrReleased(t *testing.T) {
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

func TestLease_NotRenewed_RunsOut(t *testing.T) {
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

func TestLeaseGuard_WithoutLease_OnlyReadsPass(t *testing.T) {
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
