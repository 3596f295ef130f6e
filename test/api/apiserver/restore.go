// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
)

// bump is how far a restored etcd's revision is ahead of the snapshot's: more
// than was written since (`etcdutl snapshot restore --bump-revision`).
const bump = 1_000_000_000

func etcdData(dir string) string { return filepath.Join(dir, "etcd") }

// Snapshot keeps etcd's data as they are. Both programs are down for a moment.
func (s *Server) Snapshot(ctx context.Context) error {
	return s.withEtcdDown(ctx, func() error {
		if err := os.RemoveAll(etcdData(s.dir) + ".snapshot"); err != nil {
			return err
		}
		return os.CopyFS(etcdData(s.dir)+".snapshot", os.DirFS(etcdData(s.dir)))
	})
}

// Restore brings back the data of the last Snapshot. Both programs are down for a moment. With
// bumpRevision it changes etcd's revisions as `etcdutl snapshot restore --bump-revision
// --mark-compacted` does: none comes back that a client has seen already, and a watch from an
// earlier one ends with an error, so that its client reads anew.
func (s *Server) Restore(ctx context.Context, bumpRevision bool) error {
	return s.withEtcdDown(ctx, func() error {
		if err := os.RemoveAll(etcdData(s.dir)); err != nil {
			return err
		}
		if err := os.CopyFS(etcdData(s.dir), os.DirFS(etcdData(s.dir)+".snapshot")); err != nil {
			return err
		}
		if !bumpRevision {
			return nil
		}
		return bumpRevisions(filepath.Join(etcdData(s.dir), "member", "snap", "db"))
	})
}

func (s *Server) withEtcdDown(ctx context.Context, do func() error) (err error) {
	s.Interrupt()
	s.etcd.stop()
	if err := do(); err != nil {
		return fmt.Errorf("change etcd's data: %w", err)
	}
	if s.etcd, err = launch(ctx, s.dir, etcdProgram, s.programs.etcd, s.etcdArgs...); err != nil {
		return err
	}
	return s.Resume(ctx)
}

// bumpRevisions writes an empty revision far ahead of the last one into etcd's
// back end, and that everything before is compacted. A revision is a key of the
// bucket "key": main and sub revision, big endian, with '_' between.
func bumpRevisions(file string) error {
	db, err := bbolt.Open(file, 0o600, nil)
	if err != nil {
		return fmt.Errorf("open %s: %w", file, err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		keys, meta := tx.Bucket([]byte("key")), tx.Bucket([]byte("meta"))
		if keys == nil || meta == nil {
			return errors.New("etcd's back end has no keys")
		}
		last, _ := keys.Cursor().Last()
		if len(last) < 8 {
			return fmt.Errorf("etcd's last revision is %x", last)
		}
		main := binary.BigEndian.AppendUint64(nil, binary.BigEndian.Uint64(last)+bump)
		revision := append(append(main, '_'), make([]byte, 8)...)
		return errors.Join(keys.Put(revision, nil), meta.Put([]byte("scheduledCompactRev"), revision))
	})
	return errors.Join(err, db.Close())
}
