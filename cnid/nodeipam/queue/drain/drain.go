// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package drain applies the releases that are queued in a directory (package queue), also
// those from before its start.
//
// The kernel reports new files. As it may drop reports, and as the directory may be
// replaced, the directory is also read at intervals.
package drain

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/alioth-net/alioth/cnid/nodeipam/queue"
)

// Config has the settings and functions of a Drain.
type Config struct {
	// Dir is made if it is missing.
	Dir string
	// Release applies one release. An unknown release is not an error; after an error it is
	// called again later.
	Release func(ctx context.Context, r queue.Release) error
	// Metrics is nil where nobody reads them.
	Metrics *Metrics
	Log     *slog.Logger

	// Every is the time between reads without a report; 30 s when 0.
	Every time.Duration
	// FirstWait and LastWait are the first and the longest wait of a failed release for its
	// repetition; 1 s and 1 min when 0.
	FirstWait, LastWait time.Duration
	// Timeout limits one release; 10 s when 0.
	Timeout time.Duration
}

// unfinishedFor is the age limit of an unfinished file. Its writer needs milliseconds.
const unfinishedFor = time.Minute

// Drain applies queued releases. Use Run.
type Drain struct {
	cfg Config
	// retries are the files of failed releases, by name.
	retries map[string]retry
}

// retry has the time of a release's next attempt, and the wait after it.
type retry struct {
	due  time.Time
	wait time.Duration
}

// New returns a Drain.
func New(cfg Config) *Drain {
	for d, otherwise := range map[*time.Duration]time.Duration{
		&cfg.Every: 30 * time.Second, &cfg.FirstWait: time.Second, &cfg.LastWait: time.Minute, &cfg.Timeout: 10 * time.Second,
	} {
		if *d == 0 {
			*d = otherwise
		}
	}
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(prometheus.NewRegistry())
	}
	return &Drain{cfg: cfg, retries: map[string]retry{}}
}

// Run applies releases until ctx ends.
func (d *Drain) Run(ctx context.Context) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		d.cfg.Log.Warn("the kernel does not report queued releases; looking for them at intervals", "error", err)
		watcher = &fsnotify.Watcher{} // its channels are nil and never report
	} else {
		defer watcher.Close()
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case event := <-watcher.Events:
			if !d.concerns(event) {
				continue
			}
		case err := <-watcher.Errors:
			d.cfg.Log.Warn("reports about queued releases may be lost; reading all", "error", err)
		}
		d.prepare(watcher)
		timer.Reset(d.pass(ctx))
	}
}

// concerns reports whether there may be something new. The removal of files is the drain's own
// work, but the removal of the directory ends the reports.
func (d *Drain) concerns(event fsnotify.Event) bool {
	return event.Has(fsnotify.Create) || event.Has(fsnotify.Write) ||
		filepath.Clean(event.Name) == filepath.Clean(d.cfg.Dir)
}

// prepare makes the directory and asks for reports about it. Both may be there already.
func (d *Drain) prepare(watcher *fsnotify.Watcher) {
	err := os.MkdirAll(d.cfg.Dir, 0o700)
	if err == nil && watcher.Events != nil {
		err = watcher.Add(d.cfg.Dir)
	}
	if err != nil {
		d.cfg.Log.Warn("can't watch the directory of queued releases", "path", d.cfg.Dir, "error", err)
	}
}

// pass applies the due releases, and returns the delay until the next pass.
func (d *Drain) pass(ctx context.Context) time.Duration {
	next := d.cfg.Every
	entries, err := os.ReadDir(d.cfg.Dir)
	if err != nil {
		d.cfg.Log.Warn("can't read the queued releases", "path", d.cfg.Dir, "error", err)
		return next
	}
	there := map[string]bool{}
	for _, entry := range entries {
		name := entry.Name()
		there[name] = true
		if ctx.Err() != nil {
			return next
		}
		if time.Now().Before(d.retries[name].due) {
			continue
		}
		if err := d.one(ctx, name); err != nil {
			d.later(name, err)
		} else {
			delete(d.retries, name)
		}
	}
	for name, r := range d.retries {
		if !there[name] {
			delete(d.retries, name)
			continue
		}
		next = min(next, max(time.Until(r.due), 0))
	}
	return next
}

// later puts a release off.
func (d *Drain) later(name string, cause error) {
	wait := d.cfg.FirstWait
	if before := d.retries[name].wait; before > 0 {
		wait = min(2*before, d.cfg.LastWait)
	}
	d.cfg.Metrics.count(failed)
	d.retries[name] = retry{due: time.Now().Add(wait), wait: wait}
	d.cfg.Log.Warn("a queued release failed; trying again", "file", name, "after", wait, "error", cause)
}

// one handles one file. An error means that it stays.
func (d *Drain) one(ctx context.Context, name string) error {
	r, info, err := queue.Read(d.cfg.Dir, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, queue.ErrUnfinished):
		return d.unfinished(name)
	case errors.Is(err, queue.ErrStrange):
		return d.reject(name, err)
	case err != nil:
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	if err := d.cfg.Release(bounded, r); err != nil {
		return err
	}
	d.cfg.Metrics.count(applied)
	d.cfg.Log.Info(
		"applied a queued release",
		"containerID",
		r.ContainerID,
		"ifName",
		r.IfName,
		"podInterfaceID",
		r.PodInterfaceID,
	)
	return d.remove(name, info)
}

// remove removes a file that was applied, but not one that has taken its place meanwhile.
func (d *Drain) remove(name string, applied os.FileInfo) error {
	path := filepath.Join(d.cfg.Dir, name)
	present, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || !os.SameFile(present, applied) {
		return errors.Join(err, errors.New("the file was written again meanwhile"))
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// unfinished removes the remains of a killed writer.
func (d *Drain) unfinished(name string) error {
	path := filepath.Join(d.cfg.Dir, name)
	info, err := os.Lstat(path)
	if err != nil || time.Since(info.ModTime()).Abs() < unfinishedFor {
		return nil //nolint:nilerr // it is gone: the writer has finished
	}
	return d.reject(name, queue.ErrUnfinished)
}

// reject removes a file that is not a release. It moves an entry that can't be removed, such as a
// directory with files, beside the queue.
func (d *Drain) reject(name string, why error) error {
	path := filepath.Join(d.cfg.Dir, name)
	err := os.Remove(path)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		d.cfg.Metrics.count(rejected)
		d.cfg.Log.Warn("removed a file that is no release", "file", name, "error", why)
		return nil
	}
	aside := filepath.Clean(d.cfg.Dir) + ".rejected"
	to := filepath.Join(aside, strconv.FormatInt(time.Now().UnixNano(), 10))
	if err := errors.Join(os.MkdirAll(aside, 0o700), os.Rename(path, to)); err != nil {
		return errors.Join(why, err)
	}
	d.cfg.Metrics.count(rejected)
	d.cfg.Log.Warn("moved aside what is no release", "file", name, "movedTo", to, "error", why)
	return nil
}
