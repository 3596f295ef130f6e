// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/alioth-net/alioth/api/version"
)

// counted is an API server with one Lease, which counts the reads.
type counted struct {
	coordination.LeaseInterface
	version string
	reads   int
}

func (c *counted) Get(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error) {
	c.reads++
	return leaseAt(c.version), nil
}

func (c *counted) Update(context.Context, *coordinationv1.Lease, metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return leaseAt(c.version), nil
}

func leaseAt(v string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{ResourceVersion: v}}
}

func TestLeaseWatch_BeforeAndAfterWrite_AnswersReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, watched := &counted{version: "7"}, (*coordinationv1.Lease)(nil)
		f := &watchedLease{LeaseInterface: api, pause: time.Second, late: time.Minute, watched: func() *coordinationv1.Lease { return watched }}
		look := func(when, want string, reads int) {
			t.Helper()
			api.reads = 0
			for range 10 {
				if got, err := f.Get(t.Context(), leaseName, metav1.GetOptions{}); err != nil || got.ResourceVersion != want {
					t.Errorf("%s: read version %s, want %s, error %v", when, got.ResourceVersion, want, err)
				}
			}
			if api.reads != reads {
				t.Errorf("%s: the API server was asked %d times, want %d", when, api.reads, reads)
			}
		}
		began := time.Now()
		look("before the watch has anything", "7", 10)
		if took := time.Since(began); took != 9*time.Second {
			t.Errorf("ten reads took %s, want a second between two", took)
		}
		watched = leaseAt("6")
		look("once the watch has the lease", "6", 0)
		if _, err := f.Update(t.Context(), watched, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		look("after a write", "7", 10)
		watched = leaseAt("7")
		look("once the watch has caught up", "7", 1)
	})
}

// mute is an API server that answers requests for the Lease with an error, nil for none.
type mute struct {
	coordination.LeaseInterface
	err error
}

func (m *mute) Get(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error) {
	return leaseAt("7"), m.err
}

func (m *mute) Update(context.Context, *coordinationv1.Lease, metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return leaseAt("7"), m.err
}

// A replica that stands by does not know what changed while the API server did not answer: etcd may
// have been restored.
func TestLease_APIServerSilent_TermEnds(t *testing.T) {
	broken := errors.New("connection refused")
	conflict := apierrors.NewConflict(coordinationv1.Resource("leases"), leaseName, nil)
	for name, tt := range map[string]struct {
		silent  time.Duration
		update  error // the outcome of a write before the last read
		renewed bool  // the watch reports a renewal before the last read
		ends    bool
	}{
		"for a moment":                    {silent: 4 * time.Second, update: broken},
		"for the duration of the Lease":   {silent: 5 * time.Second, update: broken, ends: true},
		"but a write is a conflict":       {silent: 5 * time.Second, update: conflict},
		"but the watch reports a renewal": {silent: 5 * time.Second, update: broken, renewed: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api, watched, ended := &mute{}, leaseAt("6"), error(nil)
				f := &watchedLease{
					LeaseInterface: api, late: time.Minute, limit: 5 * time.Second, answered: time.Now(),
					watched: func() *coordinationv1.Lease { return watched },
					refuse:  func(err error) { ended = err },
				}
				read := func() { _, _ = f.Get(t.Context(), leaseName, metav1.GetOptions{}) }
				read()
				time.Sleep(tt.silent) //nolint:forbidigo // virtual time
				api.err = tt.update
				_, _ = f.Update(t.Context(), watched, metav1.UpdateOptions{})
				if tt.renewed {
					watched = leaseAt("7")
				}
				api.err = broken
				read()
				if tt.ends != (ended != nil) || tt.ends && !errors.Is(ended, broken) {
					t.Errorf("the term ended with %v, want an end: %v", ended, tt.ends)
				}
			})
		})
	}
}

// noted is an API server with one Lease that others have written.
type noted struct {
	coordination.LeaseInterface
	lease *coordinationv1.Lease
}

func (n *noted) Get(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error) {
	return n.lease.DeepCopy(), nil
}

func (n *noted) Update(_ context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	n.lease = lease.DeepCopy()
	return lease, nil
}

func (n *noted) Create(ctx context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return n.Update(ctx, lease, metav1.UpdateOptions{})
}

func TestLeader_Elected_NotesStateFormat(t *testing.T) {
	for _, creates := range []bool{true, false} {
		api := &noted{lease: leaseAt("1")}
		f := &watchedLease{LeaseInterface: api, late: time.Minute, watched: func() *coordinationv1.Lease { return nil }}
		var err error
		if creates {
			_, err = f.Create(t.Context(), leaseAt(""), metav1.CreateOptions{})
		} else {
			_, err = f.Update(t.Context(), leaseAt("1"), metav1.UpdateOptions{})
		}
		if got := api.lease.Annotations[stateAnnotation]; err != nil || got != strconv.Itoa(version.State) {
			t.Errorf("creates %v: the Lease has the format %q, %v", creates, got, err)
		}
	}
}

// Whether a watch or the API server has it, the Lease of a newer release is never held.
func TestLease_NewerRelease_NeverHeld(t *testing.T) {
	for text, known := range map[string]bool{
		"": true, strconv.Itoa(version.State): true, strconv.Itoa(version.State - 1): true,
		strconv.Itoa(version.State + 1): false, "two": false,
	} {
		lease := leaseAt("1")
		if text != "" {
			metav1.SetMetaDataAnnotation(&lease.ObjectMeta, stateAnnotation, text)
		}
		for _, watched := range []*coordinationv1.Lease{nil, lease} {
			var refused error
			f := &watchedLease{
				LeaseInterface: &noted{lease: lease},
				late:           time.Minute,
				refuse:         func(err error) { refused = err },
				watched:        func() *coordinationv1.Lease { return watched },
			}
			_, err := f.Get(t.Context(), leaseName, metav1.GetOptions{})
			if (err == nil) != known || !errors.Is(refused, err) {
				t.Errorf("format %q, watched %v: error %v, refused %v, want the Lease: %v", text, watched != nil, err, refused, known)
			}
		}
	}
}

func TestLeaseRequest_Late_SentAgainFirstAnswerCounts(t *testing.T) {
	conflict := apierrors.NewConflict(coordinationv1.Resource("leases"), leaseName, nil)
	broken := errors.New("connection refused")
	// hung is of a request that has no answer.
	const hung = time.Hour
	type reply struct {
		after time.Duration
		err   error
	}
	for name, tt := range map[string]struct {
		replies []reply
		want    int
		err     error
		took    time.Duration
	}{
		"in time":                           {[]reply{{after: time.Second}}, 0, nil, time.Second},
		"refused in time":                   {[]reply{{time.Second, broken}}, 0, broken, time.Second},
		"the first hangs":                   {[]reply{{after: hung}, {after: time.Second}}, 1, nil, 3 * time.Second},
		"the first is slow":                 {[]reply{{after: 4 * time.Second}, {after: hung}}, 0, nil, 4 * time.Second},
		"the second fails":                  {[]reply{{after: 5 * time.Second}, {time.Second, broken}}, 0, nil, 5 * time.Second},
		"both fail":                         {[]reply{{5 * time.Second, broken}, {time.Second, broken}}, 0, broken, 5 * time.Second},
		"the first was done without answer": {[]reply{{after: hung}, {time.Second, conflict}}, 1, conflict, 3 * time.Second},
		"both hang":                         {[]reply{{after: hung}, {after: hung}}, 0, context.DeadlineExceeded, 9 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second) // virtual time
				defer cancel()
				began := time.Now()
				var sent atomic.Int32
				got, err := hedge(ctx, 2*time.Second, func(ctx context.Context) (int, error) {
					i := int(sent.Add(1)) - 1
					if err := waitUntil(ctx, time.Now().Add(tt.replies[i].after)); err != nil {
						return i, err
					}
					return i, tt.replies[i].err
				})
				if !errors.Is(err, tt.err) || err == nil && got != tt.want || int(sent.Load()) != len(tt.replies) {
					t.Errorf("got the answer %d and error %v of %d requests, want %d, %v, %d", got, err, sent.Load(), tt.want, tt.err, len(tt.replies))
				}
				if took := time.Since(began); took != tt.took {
					t.Errorf("it took %s, want %s", took, tt.took)
				}
			})
		})
	}
}
