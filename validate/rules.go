package validate

// Rules are all rules, in the order of docs/rules.md.
var Rules = []Rule{
	// What the broker refuses.
	queueNotDurable,
	argumentNotForType,
	argumentValue,
	routingKeyButNoDLX,
	reservedName,
	exchangeTypeUnknown,
	exchangeTypeNeedsPlugin,
	bindDefaultExchange,
	danglingBinding,
	headersMatchInvalid,
	localRandomKey,
	policyKeyUnknown,
	policyValue,
	policyApplyTo,
	policyPattern,
	policyEmpty,

	// What it accepts and does not do.
	unknownArgument,
	argumentWithoutEffect,
	deprecatedSetting,
	unlimitedLimitBefore4,
	rejectPublishDLXOnQuorum,
	atLeastOnceIncomplete,
	atLeastOnceUnbounded,
	delayedRetryIncomplete,
	xMatchIgnoresXHeaders,
	countHeaderNeverMatches,
	headersBindingEmpty,
	bindingArgumentsIgnored,
	transientQueue,
	transientExchange,
	settingOverruled,

	// Which policy acts.
	policyMatchesNoType,
	policyIgnoredForType,
	policyPriorityTie,
	policyOverGenerated,
	policyHidden,
	policiesSlow,

	// Where published messages go.
	publishUnroutable,
	unroutableUnguarded,
	exchangeWithoutBinding,
	queueUnreachable,

	// Where messages go that fail.
	deadLetterExchangeMissing,
	deadLetterQueueMissing,
	deadLetterUnroutable,
	deadLettersToItself,
	dlxWithoutElse,
	deadLetterRouteMixed,
	alternateExchangeMissing,
	capWithoutDeadLetter,
	deadLetterWithoutCap,
	quorumDefaultLimitWithoutDLX,
	dropIsLoss,
	dropsSilently,
	rejectPublishAndDeadLetters,
	limitIntoWaitQueue,
	ttlCycleLoses,
	rejectCycleWithoutCap,
	deadLetterTargetWithoutRole,
	deadLetterQueueWithoutOwner,
	categoryRoutingNeedsQuorum,

	// Waiting for the next attempt.
	waitQueueExpires,
	waitQueueBounded,
	waitQueueWithoutTTL,
	waitQueueTTLShorter,
	waitQueueWithoutReturn,
	mixedDelays,

	// Promises.
	notRestartSafe,
	contractIncomplete,

	// What an upgrade changes.
	upgradeMirroredQueue,
	upgradePolicyActs,
	upgradeSettingChanges,
	upgradeDefaultDeliveryLimit,
	upgradeNackNotCounted,
	upgradeConsumerTimeout,
	upgradeDefaultQueueType,
	upgradeDelayedMessagePlugin,
	upgradeMaxAgeCompared,
}
