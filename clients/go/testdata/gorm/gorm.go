// Package gorm stands in for gorm.io/gorm, version 2, with as much of it as the README's recipe uses: Debian has
// only version 1.
package gorm

import "context"

// DB is what a hook is given.
type DB struct{ Statement *Statement }

// Statement is that of the call which the hook is part of.
type Statement struct{ Context context.Context }

type beforeCreate interface{ BeforeCreate(*DB) error }

// Create calls the hook, as Create of WithContext(ctx) does before it inserts the row.
func Create(ctx context.Context, row beforeCreate) error {
	return row.BeforeCreate(&DB{Statement: &Statement{Context: ctx}})
}
